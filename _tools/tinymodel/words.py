"""Vocabularies of the generated conversations. Each is split in two: what
training may use and what only the evaluation uses. Every word was written for
this project."""


def _words(text):
    return text.split()


def _lines(text):
    return [line.strip() for line in text.strip().splitlines()]


TRAIN = {
    "verb": _words("""get set find list create delete update check book send show open close start stop read write search track
        convert measure order cancel move copy print play pause lock scan"""),
    "noun": _words("""weather alarm flight hotel ticket invoice order parcel recipe playlist lamp heater door window camera printer backup
        server report meeting calendar contact message photo video song movie book article exchange stock account
        payment refund budget tax loan train bus taxi bike parking route map traffic station airport bridge river
        forecast humidity pressure battery engine sensor robot drone garden plant seed lawn pump tank valve
        user group role token session device network router domain disk file folder archive branch commit build
        release ticket issue patient doctor visit dose diet workout score match team player league menu table
        dinner coupon cart product price catalog warehouse shelf box label package"""),
    "param": _words("""city country day date hour minute name title amount size color language currency distance weight height length
        width level speed limit count page street code id email phone owner author topic category place room seat
        floor zone brand model year month week duration volume brightness temperature target source path branch
        version priority status format reason note subject gender rate quantity"""),
    "key": _words("""temperature humidity wind price total balance status owner distance duration arrival departure gate platform
        size weight color version count score rank level result stock discount tax height depth speed pressure
        population language author pages chapter genre rating state location street phone email salary"""),
    "city": _words("""Paris London Madrid Vienna Prague Athens Dublin Lisbon Warsaw Zurich Geneva Milan Naples Turin Munich Hamburg
        Cologne Lyon Nice Porto Seville Valencia Krakow Gdansk Tallinn Vilnius Tokyo Osaka Seoul Delhi Mumbai Cairo
        Nairobi Lagos Lima Quito Boston Chicago Denver Dallas Seattle Toronto Montreal Sydney Perth Auckland"""),
    "name": _words("""Anna Peter Maria John Lisa Tom Sara David Laura Mark Emma Paul Julia Simon Clara Felix Nina Oscar Ida Leo
        Eva Max Ruth Adam Helen Frank Alice Bruno Karin Victor Irene Walter Sofia Martin Diana George Emily Henry
        Grace Arthur Rosa Hugo Vera Edgar Olga Ralph Tina Albert Mona Erik"""),
    "word": _words("""red blue green yellow black white brown pink grey small large round flat soft hard warm cold new old fresh
        apple pear plum lemon bread cheese butter honey rice soup salad pizza pasta coffee tea milk juice water
        dog cat horse rabbit parrot turtle hamster guitar piano violin flute drum tennis chess football hockey
        running swimming reading painting cooking urgent normal open closed ready pending shipped sunny cloudy rainy
        windy clear wood metal glass paper stone cotton silver gold summer winter spring autumn monday friday sunday
        morning evening noon linear basic premium public private weekly daily monthly north south east west"""),
    "attribute": _words("""name age city dog cat job hobby color food drink sport team car bike school street country language song
        movie book instrument teacher brother sister boss garden boat birthday season flower fruit password"""),
    "object": _lines("""
        the moon
        a black hole
        the French Revolution
        my computer
        the stock market
        love
        a cat
        the ocean
        photosynthesis
        the Roman Empire
        a knight
        climate change
        the city of Berlin
        football
        spring
        jazz
        gravity
        a dragon
        my holiday
        vitamins
        the internet
        a lost key
        robots
        electric cars
        ancient Egypt
        the weather
        volcanoes
        trees
        the sun
        my best friend"""),
    "enum": _lines("""
        celsius fahrenheit
        low high
        small medium large
        red green blue
        fast slow
        asc desc
        one_way round_trip
        metric imperial
        public private
        daily weekly monthly
        day night
        left right
        cash card
        open shut auto"""),
}

HELDOUT = {
    "verb": _words("fetch remove add query change reserve submit display rename resume launch compare"),
    "noun": _words("""museum concert ferry elevator oven fridge umbrella passport visa package lottery horoscope podcast newsletter
        survey quiz gallery satellite telescope turbine sauna fountain vineyard tractor subway scooter luggage
        warranty mortgage pension vaccine allergy""".replace("package", "parachute")),
    "param": _words("""region district airline passenger checkout guest keyword latitude altitude voltage portion wing tariff branchless
        deadline barcode nickname suburb gender_code pincode""".replace("branchless", "sector").replace("gender_code", "postcode")),
    "key": _words("visibility altitude voltage delay fee capacity terminal carrier mileage calories sunrise postcode vendor amperage latency"),
    "city": _words("Rome Oslo Bern Bremen Helsinki Budapest Stockholm Brussels Ankara Bogota Hanoi Manila Kyoto Phoenix Houston Salzburg"),
    "name": _words("Nora Jonas Greta Philip Selma Robin Marlene Gustav Bianca Fabian Carmen Otto Pauline Stefan Yvonne Douglas"),
    "word": _words("""purple orange turquoise mango cherry noodles omelette cocoa lobster pony ferret cello trumpet badminton rowing
        hiking knitting foggy stormy delayed expired granite leather copper tuesday saturday midnight crimson walnut"""),
    "attribute": _words("nickname uncle cousin neighbour village dessert perfume dentist tailor sandwich planet motorbike"),
    "object": _lines("""
        a lighthouse
        the Vikings
        quantum physics
        the pyramids
        my neighbour
        chocolate
        a haunted castle
        world peace
        dinosaurs
        opera"""),
    "enum": _lines("""
        kelvin rankine
        near far
        narrow wide
        economy business first
        draft final
        hourly yearly
        portrait landscape"""),
}


# Lower-case words that hardly are names or values, and some of the system message.
FUNCTION_WORDS = set(_words("""a about again am an and any are as at be but by can cannot could do does each every for from go has have how i if in into is it
    larger less me more must my no not of on or please remember remembered smaller so such tell than that the their them then there these this to told was were
    what when where which who will with would you your analysis commentary channels cutoff included asks fits"""))

# Others that the templates say all the time and that hardly are names or values.
FRAME_WORDS = set(_words("""knowledge current reasoning valid channel chatgpt openai gpt ai ossian tiny trained json api functions namespace instructions formats properties assistant developer
    tools tool gets fields keys digits numbers ones tens hundreds thousands minus boolean shortly favourite favorite hello thanks thank our us we very should much here"""))


def vocabulary(split):
    """The words of a split, "train" or "heldout"."""
    return {"train": TRAIN, "heldout": HELDOUT}[split]
