"""Frequent abbreviations of languages, for splitting sentences and tokens."""

# ruff: noqa: RUF001 (Greek and Cyrillic letters)

ABBREVIATIONS = {
    "cs": (
        "apod atd Bc cca doc Dr Ing JUDr kpt Mgr mj MUDr např nám odst PhDr popř prof příp "
        "resp RNDr str sv tel tj tzn tzv ul č čl"
    ),
    "da": "dr fhv hr kap nr sk",
    "de": "Anm Aufl Ausg bes ff geb gest Hl hl Jg Kap Mag med verh vgl",
    "el": "αρ βλ εκδ κ κα κτλ π σελ σημ τηλ τόμ χ",
    "es": "Arq art cap D Dña ed EE ej Excma Excmo Ilmo Mons núms págs Rvdo Sras Sres tel UU",
    "fi": "dipl dos tkt toht tri",
    "fr": "art chap Cie env ex fig Me Mgr Mlles Mmes p tél vol éd",
    "hr": "dipl dr gosp gđa itd mr npr prof str sv tel tj tzv ul",
    "it": "arch ca cap cfr dott es fig gen geom ing Mons mons on p pagg sig sigg tav vol",
    "nl": "bijv Dhr dhr dr drs ing ir Mej mej Mr Mw mw nr prof St",
    "pl": (
        "bp dr godz hab inż itd itp ks lek mgr min np nr prof przyp płk red rtm str tel tj "
        "tys tzn tzw ul zob św"
    ),
    "pt": "cap cf Dra Dras Drs Eng ex Exma Exmo fig núm Prof Profa págs Sras Srs Srta séc tel",
    "ro": "d dl dna dvs ing nr pag",
    "ru": "акад ген гр др им ок проф см ср стр ул",
    "sk": "atď Dr Ing JUDr Mgr MUDr napr nám PhDr prof resp str sv tel tj tzn tzv ul č",
    "sl": "dr gdč itd npr oz prof str sv tel tj ul",
    "sv": "ang bl ca ex kap kl nr prof resp St tel",
    "tr": "bkz Dr Prof Sn",
    "uk": "акад вул гр див доц обл проф р ст стор ім",
}
"""Words that a period follows within a sentence, such as titles, which spaCy's rules may lack."""

LAST_ABBREVIATIONS = """
    al apod atd atď Bros Cie Co co Corp Cía dgl ecc etc ff Inc itd itp jne Jr jr Jun jun jur Ltd
    mfl Min min Mio Mrd Nachf osv pp Sen sen ss Std Tsd Ud Uds usw UU vb Vd Vds ym yms κλπ κτλ г гг
    др млн пр руб тыс
"""
"""Abbreviations that often are the last word of a sentence."""

ORDINALS = {
    "de": r"\b([Aa]m|[Vv]om|[Zz]u[mr]|[Bb]eim|[Ii]m|[Dd](er|ie|as|en|em|es)|[Bb]is|[Ss]eit|und|"
    r"[Ee]ine?[nmrs]?|[Ii]hr\w*|[Ss]ein\w*|[Jj]ede[nrs]?) \d{1,2}\.\n"
    r"(?!(Er|Sie|Es|Ich|Wir|Ihr|Man|Das|Der|Die|Dies\w*|Dann|Danach|Dort|Da|Und|Aber)\b)",
}
"""Numbers that are ordinals and end no sentence, in languages with capital letters for nouns.

A pattern is searched in the text before and after a boundary, with a line break between them."""
