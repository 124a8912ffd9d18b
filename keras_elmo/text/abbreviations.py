"""Frequent abbreviations of languages, for splitting sentences and tokens."""

# ruff: noqa: RUF001 (Greek and Cyrillic letters)

ABBREVIATIONS = {
    "cs": (
        "Bc cca doc Dr Ing JUDr kpt Mgr mj MUDr např odst PhDr popř prof příp resp RNDr str sv tel "
        "tj tzn tzv ul č čl"
    ),
    "da": "bl.a ca cand dr evt f.eks fhv hr inkl kl nr prof sk tlf",
    "de": (
        "Abt allg Anm Aufl Ausg Bd bes Chr Dipl ebd Fa Fam ff. Frl geb gegr gem gest ggf Hl hl Hr "
        "Hrn Hrsg hrsg insb Jg Kap Mag med Prof sog verh vgl"
    ),
    "el": "αρ βλ εκδ κ κα π σελ σημ τηλ τόμ",
    "es": (
        "aprox Arq art Av Avda cap D Dña Dra ed EE ej Excma Excmo fig Ilmo Mons núm núms pág págs "
        "Profa Rvdo Sras Sres tel UU."
    ),
    "fi": "dipl dos esim huom ks nk prof puh tkt toht toim vrt",
    "fr": "av chap Cie. env fig Me Mgr Mlle Mlles MM Mme Mmes p p.ex pp Ste tél éd",
    "hr": "br dipl dr gosp gđa mr npr prof str sv tel tj tzv ul",
    "it": (
        "arch avv ca cap cfr dott dr es fig gen geom ing mons on p pag pagg prof sig sigg tav vol"
    ),
    "nb": "bl.a ca dr evt f.eks fhv hr inkl kl nr prof sk tlf",
    "nl": "bijv blz ca dhr dr drs ds evt fam hfst ing ir jhr mej mevr mgr Mr mw nr prof St vgl zgn",
    "pl": "bp dr godz hab inż ks mgr np nr prof przyp płk red rtm str tel tj tzn tzw ul zob św",
    "pt": (
        "Av cap cf Dra Dras Drs Eng Exma Exmo fig núm p.ex pág págs Profa Sras Srs Srta séc tel"
    ),
    "ro": "d dl dna dr dvs fig ing nr pag prof str",
    "ru": "акад гл доц др. пл просп проф См ср стр табл тов ул",
    "sk": "Dr Ing JUDr Mgr MUDr napr PhDr prof resp str sv tel tj tzn tzv ul č",
    "sl": "dr gdč npr oz prof str sv tel tj ul",
    "sv": "ang bl.a ca dr dvs fig kap kl nr prof resp sid St t.ex tel",
    "tr": "bkz Dr Prof Sn",
    "uk": "акад вул див доц просп проф стор ім",
}
"""Words whose period ends no sentence, such as titles, also with a capital letter.

Those with a period here may end one; they are tokens with it. Words of the language, such as "art"
in French, do not belong here, nor does what spaCy has as a token and what often ends a sentence.
"""

ORDINALS = {
    "de": r"\b(?:[Aa]m|[Vv]om|[Zz]u[mr]|[Bb]eim|[Ii]m|[Dd](?:er|ie|as|en|em|es)|[Bb]is|[Ss]eit|und|"
    r"[Ee]ine?[nmrs]?|[Ii]hr\w*|[Ss]ein\w*|[Jj]ede[nrs]?) \d{1,2}\.(?=\s+"
    r"(?!(?:Er|Sie|Es|Ich|Wir|Ihr|Man|Das|Der|Die|Dies\w*|Dann|Danach|Dort|Da|Und|Aber)\b)\S)",
}
"""Patterns of numbers that are ordinals and end no sentence, in languages with capital letters for
nouns."""
