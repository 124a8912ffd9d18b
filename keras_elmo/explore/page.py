"""The pages of the explorer, which Streamlit runs. The model's name is the argument."""

import functools
import sys

import streamlit as st


def main() -> None:
    """Shows the page of the address."""
    st.set_page_config("ELMo explorer", layout="wide")
    with st.spinner("Loading the model ..."):
        from keras_elmo.startup import import_keras

        import_keras()
        from keras_elmo.explore import views
    pages = {
        address: st.Page(
            functools.partial(views.show, address, sys.argv[1]), title=title, url_path=address
        )
        for address, (title, _) in views.VIEWS.items()
    }
    first = next(iter(pages.values()))
    start = st.Page(lambda: st.switch_page(first), title="Start", default=True)
    page = st.navigation([start, *pages.values()], position="hidden")
    with st.container(horizontal=True):  # Streamlit's own menu is folded away on a phone
        for other in pages.values():
            st.page_link(other, width="content")
    page.run()


if __name__ == "__main__":
    main()
