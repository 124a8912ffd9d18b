"""The page of the explorer, which Streamlit runs. The model's name is the argument."""

import sys

import streamlit as st


def main() -> None:
    """Shows the page."""
    st.set_page_config("ELMo explorer", layout="wide")
    st.title("ELMo explorer")
    with st.spinner("Loading Keras ..."):
        from keras_elmo.startup import import_keras

        import_keras()
        from keras_elmo.explore import views
    views.show(sys.argv[1])


if __name__ == "__main__":
    main()
