"""What people count: nouns that may stand after a number without making it another answer."""

from __future__ import annotations

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
