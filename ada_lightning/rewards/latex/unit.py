"""Names of units: one name for each, however it is written; and words for large numbers, which are no units."""

from __future__ import annotations

import re

from ada_lightning.rewards.latex import foreign

NOUNS = frozenset(
    """
    adult airplane animal answer ant apartment apple apricot area arrangement article award baby bag bagel bake ball
    balloon banana bandage banner bar bark barrel baseball basket basketball bath bean bear bed bedroom bee beetle
    bell belt bench berry bicycle bike bill bin bird birthday biscuit blanket block blog blouse blueberry board boat
    bonus book bookcase booklet bookmark boot bottle bouquet bow bowl box boy bracelet branch bread brick bridge
    broccoli brother brownie buck bucket bug building bulb bull bunch bundle bunny burger bus bush business
    butterfly button cabbage cabin cabinet cage cake call camera camper can candle candy cap capsule car card
    carnation carpet carriage carrot carton case cash cassette cat catfish cd cell chair championship chapter charm
    cheese cherry chest chick chicken chihuahua child children chip chocolate choice chore class classmate classroom
    client clip clock closet cloth clown clue coat coconut code coffee coin collar color colour column combination
    comic comma committee computer concert cone container cook cookie corner cost costume couch country couple
    course cousin cow cowboy crab cracker crane crate crayon cream crew croissant crown cub cubes cucumber cup
    cupcake curtain cushion customer dad daisy dance dancer date daughter deck deer delivery desk dessert diagonal
    diamond dictionary digit dime dinner dinosaur dish divisor doctor document dog doll dolphin donation donut door
    dot dough doughnut downvote dragon drawer drawing dress drink driver dryer duck duckling dvd eagle ear earring
    edge egg element elephant employee engine envelope episode error essay event exam exercise expense eye face
    factor family fan farm farmer father feather female fence field fight film finger fish flag flashlight floor
    flour flower folder follower food fork form frame freshman friend frog fruit function galaxy game garden gem
    giraffe girl glass glove goal goat goldfish goose grade graduate grape grapefruit grapes graph guest guitar gym
    hair haircut hallway hamburger hammer handful hat head heart hen hike hippo hole home horse hospital hotdog
    hotel house hydrangea ice icing integer invitation island item jacket jar jersey jewel job jog jogger joint
    journey juice jump kangaroo key kid kilobyte kitchen kite kitten knife knives ladder lady lamb lamp lap laptop
    lawn leaf leaves leg lemon lemonade lesson letter lettuce level library lid light lily line lion liquid list
    lizard loaf loaves lobster locker lollipop lotion lottery lunch machine magazine magnet mail male man mango map
    marble mark marker mat match matches meal meat medal meeting melon member men mermaid message milk mirror
    mistake mom money monkey monster mother motorcycle mountain mouse mouth movie muffin mug mural mushroom music
    nail name napkin necklace needle neighbor neighbour nest net newspaper nickel night nose note notebook novel
    numbers nurse nut oak object octopus office officer onion orange orchid order organism ostrich outcome outfit
    oven owl pack package packet page pail pair pan pancake panda panel pant pants paper parent parrot part
    participant party passenger password path patient pea peach peacock peanut pear pebble pen pencil penguin
    pennies penny people pepper performance performer permutation person pet phone photo photograph picture pie
    piece pig pigeon pill pillow pilot pin pineapple pipe pitcher pizza place plan plane planet plant plate play
    player plum pocket poem point polygon pony pool popcorn poster pot potato potatoes pouch practice present
    presentation pretzel prize problem program project puddle pumpkin pupil puppy purse puzzle quail question rabbit
    raccoon race radish raffle ranger raspberry rat reader rectangle refrigerator reindeer relative rep resident
    restaurant ribbon rice ride ring river robot rock roll room rooster rope rose round route row rug ruler run
    runner sack salad salesman sandbag sandwich satellite saving scarf school scientist scoop screw seashell seat
    section seed seedling segment senior sentence serving sess session set sheep sheet shelf shell shelves ship
    shirt shoe shop shot shrimp sibling side sign singer sink sister skateboard skirt slice snack snake snowball
    snowflake snowman sock soda soldier solution son song soup spider spoon spot squares squirrel stair stamp star
    state station statue step stick sticker stitch stone stool store story straw strawberry street string student
    subset sugar suit suitcase sunflower sweater sweet swimmer symbol table tablespoon tablet tail tank tape task
    taxi tea teacher team teammate teaspoon teddy teenager teeth tent term test text texts theme ticket tie tiger
    tile time tin tip tire toad toffee toilet tomato tomatoes tool tooth tourist towel town toy track tractor train
    tray treat tree triangle trip trophy trout truck trunk tulip turkey turn turtle tutor twig twin umbrella unicorn
    uniform unit vacation value van vase vegetable vehicle vertex vertices video view visit visitor voice vote voter
    wagon waiter walk wall walnut wand watch water watermelon wave way web wedding weight wheel whistle widget wife
    win window winner wolf wolves woman women word worker workout worksheet world worm wrench writer yarn yogurt
    zebra zeroes zeros zombie zoo
    """.split()  # noqa: SIM905 - one word a line would be 800 lines
)
"""Things of everyday word problems, singular, with irregular plurals; no word that can do arithmetic with the number
before it (half, root, score), or only in the plural, which counts (squares, cubes)."""
ADJECTIVES = frozenset(
    """
    additional adult available baked big black blank blue bright brown clean closed cold correct different dirty
    distinct dry empty extra female fresh full gold golden good gray green grey happy healthy heavy hot identical
    individual large little long male many more new old open orange ordered original other pink plain plastic
    positive possible purple real red regular ripe rotten round short silver small soft spare special tall tiny
    unique used valid wet white whole wooden yellow young
    """.split()  # noqa: SIM905
)
"""Words before a noun that do not change how many there are."""
TELLING = {
    "black": "black", "blue": "blue", "brown": "brown", "gold": "gold", "golden": "gold", "gray": "gray",
    "grey": "gray", "green": "green", "orange": "orange", "pink": "pink", "purple": "purple", "red": "red",
    "silver": "silver", "white": "white", "yellow": "yellow", "male": "male", "female": "female",
}  # fmt: skip
"""Those of them that tell which things are counted: 7 blue balls are no 7 red balls."""


# fmt: off
_NAMES = {
    "cm": "centimeter", "mm": "millimeter", "km": "kilometer", "m": "meter", "nm": "nanometer", "µm": "micrometer",
    "kg": "kilogram", "g": "gram", "mg": "milligram", "lb": "pound", "oz": "ounce", "t": "ton", "T": "tesla",
    "H": "henry", "tonne": "ton", "kilogramme": "kilogram", "gramme": "gram", "metre": "meter", "litre": "liter",
    "s": "second", "sec": "second", "ms": "millisecond", "min": "minute", "h": "hour", "hr": "hour", "yr": "year",
    "ft": "foot", "feet": "foot", "in": "inch", "inche": "inch", "yd": "yard", "mi": "mile", "wk": "week",
    "l": "liter", "ml": "milliliter", "gal": "gallon", "mph": "mile/hour", "kph": "kilometer/hour",
    "kmh": "kilometer/hour", "kmph": "kilometer/hour", "fps": "foot/second", "eur": "euro", "gbp": "pound sterling",
    "inr": "rupee", "rs": "rupee", "jpy": "yen", "arcmin": "arcminute", "arcsec": "arcsecond", "ohms": "ohm",
    "cc": "centimeter^3", "ccm": "centimeter^3", "sqft": "foot^2", "amp": "ampere", "pcs": "piece", "pc": "piece",
    "yrs": "year", "mins": "minute", "secs": "second", "hrs": "hour", "wks": "week", "lbs": "pound",
    "rpm": "revolution/minute", "rev": "revolution", "kcal": "kilocalorie", "cal": "calorie", "mmhg": "mmHg",
    "torr": "torr", "psi": "psi", "hp": "horsepower", "db": "decibel", "\u00e5": "angstrom", "angstrom": "angstrom",
    "amu": "dalton", "u": "dalton", "kb": "kilobyte", "mb": "megabyte", "gb": "gigabyte", "deg": "degree",
    "rad": "radian", "usd": "dollar", "buck": "dollar", "¢": "cent", "n": "newton", "j": "joule", "w": "watt",
    "v": "volt", "a": "ampere", "k": "kelvin", "c": "celsius", "f": "fahrenheit", "hz": "hertz", "khz": "kilohertz",
    "mhz": "megahertz", "ghz": "gigahertz", "pa": "pascal", "kpa": "kilopascal", "kj": "kilojoule", "kw": "kilowatt",
    "kwh": "kilowatthour", "ev": "electronvolt", "mol": "mole",
}
"""Abbreviations and other spellings, in lower case, singular."""
_LETTERS = frozenset("mgshltLNJWVAKCFTHu\u00e5\u00c5\u212b")
"""Units of one letter, which differ by case: 5 k is no 5 K."""
_LONG = frozenset(
    (
        "acre", "arcsecond", "atm", "bar", "bit", "byte", "calorie", "celsius", "cent", "century", "coulomb", "day",
        "decade", "degree", "dollar", "dyne", "erg", "euro", "fahrenheit", "gigabyte", "hectare", "kilocalorie",
        "knot", "lightyear", "megabyte", "megawatt", "month", "ohm", "parsec", "pint", "quart", "rpm", "rupee",
        "tesla", "yen", "ohm", "revolution", "arcminute", "arcsecond", "decibel", "candela", "lumen", "lux", "weber",
        "henry", "farad", "siemens", "becquerel", "sievert", "molar", "ppm", "percentile", "furlong", "fathom",
        *(name for name in _NAMES.values() if name.isalpha()),
    )
)
_NOT_BARE = frozenset(("in", "min", "pa", "ev", "rad", "ms", "atm", "db", "cc", "pc", "mi", "oz", "hp", "rs", "kb"))
"""Short units that could be a word or a product right after a number."""
_PREFIXES = {"G": "giga", "M": "mega", "k": "kilo", "d": "deci", "c": "centi", "m": "milli", "\u00b5": "micro",
             "n": "nano", "p": "pico", "T": "tera", "h": "hecto", "f": "femto"}  # fmt: skip
_SYMBOLS = {"m": "meter", "g": "gram", "s": "second", "A": "ampere", "K": "kelvin", "mol": "mole", "cd": "candela",
            "Hz": "hertz", "N": "newton", "Pa": "pascal", "J": "joule", "W": "watt", "C": "coulomb", "V": "volt",
            "F": "farad", "ohm": "ohm", "S": "siemens", "Wb": "weber", "T": "tesla", "H": "henry", "lm": "lumen",
            "lx": "lux", "Bq": "becquerel", "Gy": "gray", "Sv": "sievert", "L": "liter", "l": "liter",
            "eV": "electronvolt", "bar": "bar", "cal": "calorie", "Wh": "watthour", "B": "byte",
            "M": "molar"}  # fmt: skip
"""Symbols that may have a prefix, with their case: mPa is no MPa."""
# fmt: on
CURRENCIES = {"$": "dollar", "€": "euro", "£": "pound sterling", "¥": "yen", "₹": "rupee"}
"""Name of the unit that a sign stands for; that of the pound is no weight."""
SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
"""Words that multiply the number before them as its digits would; 3 dozen are still to be multiplied."""
_ARITHMETIC = frozenset(
    (*SCALES, "dozen", "and", "or", "to", "plus", "minus", "times", "over", "half", "halves", "quarter", "by")
)
_HARMLESS = frozenset(
    ("total", "altogether", "exactly", "exact", "left", "remaining", "only", "tall", "long", "old"),
)
"""Words after a number, with a unit or without, that change nothing."""
_BESIDE = frozenset((*ADJECTIVES, "of", "the", "each", "wide", "high", "deep", "away"))
"""Words that can accompany a unit and change nothing."""
_POWER_BEFORE = {"square": "2", "sq": "2", "cubic": "3", "cu": "3"}
_POWER_AFTER = {"squared": "2", "cubed": "3"}
_IN_TOTAL = re.compile(r"\bin\s+(?:total|all)\b")
_ATOM = re.compile(r"([^\W\d_]+|¢)(?:\^?(-?[0-9]))?")


def unit_name(text: str, *, any_word: bool = False) -> str | None:
    r"""Return one name for a unit, or for what is counted: singular, powers as ``^2``, ``/`` for per.

    Args:
        text: words and powers, such as ``square meters``, ``km / h`` or ``m/s^{2}``.
        any_word: read words that are not known, too: of a gold answer, whose number is not in doubt.

    Returns:
        The name, empty for words such as ``in total``; None where the text says more than a unit: another number,
        ``and``, ``or``, a comma, or (unless ``any_word``) a word that is no known unit or countable thing.

    Example:
        >>> unit_name("m/s^{2}"), unit_name("Square metres"), unit_name("or 6"), unit_name("squared")
        ('meter/second^2', 'meter^2', None, None)
    """
    text = re.sub(r"\s*\^\s*", "^", re.sub(r"[{}]", "", text.replace("\u03bc", "\u00b5")))
    text = re.sub(r"\\Omega(?![a-zA-Z])\s*", "ohm ", re.sub(r"\\mu(?![a-zA-Z])\s*", "\u00b5", text))
    text = re.sub(r"\bsq\.", "sq ", re.sub(r"\bcu\.", "cu ", text))
    text = re.sub(r"(?<=[a-z])-(?=[a-z])", " ", text)
    text = _IN_TOTAL.sub("total", re.sub(r"[()~\\\u00b7*]|(?<=[A-Za-z])\.|\.(?=[A-Za-z\s])|\bcdot\b", " ", text))
    if "," in text or ";" in text:
        return None
    sides = re.sub(r"\b(?:per|an?|each)\b(?=.)", "/", text).split("/")
    names = [_product(side, any_word) for side in sides]
    known = [name for name in names if name is not None]
    if len(known) != len(names) or not all(known[1:]):
        return None
    upper = [factor for factor in known[0] if not factor[1].startswith("-")]
    lower = [(name, power.lstrip("-")) for name, power in known[0] if power.startswith("-")]
    if not upper and lower and len(sides) == 1:
        return " ".join(_with_power(name, f"-{power}") for name, power in lower)
    joined = [
        " ".join(_with_power(*factor) for factor in part)
        for part in (upper, lower, *known[1:])
        if part or part is upper
    ]
    return "/".join(joined).replace("degree celsius", "celsius").replace("degree fahrenheit", "fahrenheit")


def may_be_one(first: str, second: str) -> bool:
    """Whether two units are one, or one of them tells less: degrees of no scale, dollars for dollars a pound, balls.

    Example:
        >>> may_be_one("degree", "celsius"), may_be_one("dollar", "dollar/pound"), may_be_one("meter", "meter/second")
        (True, True, False)
    """
    less, more = sorted((first, second), key=len)
    if first == second or not less:
        return True
    plain = [" ".join(word for word in name.split(" ") if word not in TELLING) for name in (less, more)]
    if plain[0] == plain[1] == less:  # balls, and red balls
        return True
    is_short = {first, second} in ({"degree", "celsius"}, {"degree", "fahrenheit"}, {"pound", "pound sterling"})
    return is_short or (less in CURRENCIES.values() and more.startswith(f"{less}/"))


def is_bare_unit(text: str, *, is_apart: bool = True) -> bool:
    """Whether words that stand after a number without more are a unit or what is counted, and no variables.

    Args:
        text: what is behind the number.
        is_apart: there is a space before it: ``6 m`` are metres, ``6m`` is a product.
    """
    words = re.findall(r"[^\W\d_]+", _IN_TOTAL.sub("total", text))
    if len(words) > 1 and all(len(word) > 2 and word[0].isupper() for word in words):
        return False  # 21 Jump Street
    is_long = len(words) == 0 or (len(words[0]) > 1 and words[0].lower() not in _NOT_BARE) or not words[0].isascii()
    return (is_apart or is_long or "/" in text) and unit_name(text) is not None


def is_counted(text: str) -> bool:
    """Whether unknown words after a gold number can be what is counted: of three letters or more, and no numbers."""
    words = re.sub(r"[-()]", " ", text).split()
    if not words or not words[0].isalpha():
        return False  # R^2
    if words[0].isascii() and (len(words[0]) < 3 or words[0][0].isupper()):
        return False  # variables, and titles: 21 Jump Street
    return not any(word.lower() in _ARITHMETIC or _is_part(word.lower()) for word in words)


def _is_part(word: str) -> bool:
    """Whether it is thirds, quarters and the like: 2 thirds are not 2 of something."""
    return (
        re.fullmatch(r"quarters|(?:thi|fou|fif|six|seven|eigh|nin|ten|hundred|thousand)(?:r?th|rd)s?", word) is not None
    )


def _product(text: str, any_word: bool) -> list[tuple[str, str]] | None:
    """Factors of one side of a ``per``, each with its power; None where something is no factor of a unit."""
    factors: list[tuple[str, str]] = []
    power = told = ""
    needs_unit = False
    for word in text.split():
        found = _ATOM.fullmatch(word)
        if found is None or found[1].lower() in ("and", "or"):
            return None
        lower = found[1].lower()
        if lower in _POWER_AFTER and factors:
            factors[-1] = (factors[-1][0], _POWER_AFTER[lower])
        elif lower in _POWER_BEFORE:
            power = _POWER_BEFORE[lower]
        elif lower in _HARMLESS or lower in _BESIDE:
            needs_unit |= lower in _BESIDE
            told += f"{TELLING[lower]} " if lower in TELLING else ""
        else:
            name = _known(found[1]) or (_singular(lower) if any_word else "")
            if not name:
                return None
            factors.append((told + name, found[2] or power))
            power = told = ""
    return None if power or (needs_unit and not factors) else factors


def _known(word: str) -> str:
    """One name of a unit or a countable thing; empty for any other word."""
    lower = word.lower()
    if lower in foreign.FOREIGN:
        return foreign.FOREIGN[lower]
    if len(word) == 1 and word not in _LETTERS and word != "¢":
        return ""
    if len(word) > 1 and word[0] in _PREFIXES and word[1:] in _SYMBOLS and word not in _NAMES:
        return _PREFIXES[word[0]] + _SYMBOLS[word[1:]]
    if word in _SYMBOLS and len(word) > 1:
        return _SYMBOLS[word]
    forms = [lower]
    if lower.endswith("s") and len(lower) > 2:
        forms += [lower[:-1], lower.removesuffix("es"), re.sub("ies$", "y", lower)]
    found = next((form for form in forms if form in _NAMES or form in _LONG or form in NOUNS), "")
    if not found:
        found = next((_prefixed(form) for form in forms if _prefixed(form)), "")
    return _NAMES.get(found, found)


def _prefixed(word: str) -> str:
    """``centimetre`` is ``centimeter``: the British spelling of a unit with a prefix."""
    found = re.fullmatch(
        r"(centi|milli|kilo|micro|nano|deci)(metre|litre|meter|liter|gram|gramme|second|watt|volt)", word
    )
    return found[1] + _NAMES.get(found[2], found[2]) if found else ""


def _with_power(name: str, power: str) -> str:
    return f"{name}^{power}" if power not in ("", "1") else name


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
