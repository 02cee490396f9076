"""The names of made-up people, by the part of the country they come from.

This module has only word lists; `sandbox.people` decides who gets which name.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NameStock:
    """The names of one people: for men, for women, and for families."""

    people: str
    men: tuple[str, ...]
    women: tuple[str, ...]
    families: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


HAUSA = NameStock(
    "hausa",
    _words("""
        Abdullahi Abubakar Ahmed Aliyu Aminu Auwal Bala Bashir Bello Danjuma Faruk Garba Habib
        Hamza Haruna Hassan Hussaini Ibrahim Idris Isah Ismail Jibrin Kabiru Kamal Lawal Mahmud
        Mansur Mohammed Muhammad Muhammadu Murtala Mustapha Musa Nasiru Nuhu Nura Rabiu Sadiq
        Salisu Sani Shehu Suleiman Tanimu Tijjani Umar Usman Yahaya Yakubu Yusuf Zakari Zubairu
        Abdulaziz Abdulkarim Abdulmalik Abdulrahman Abdulsalam
    """),
    _words("""
        Aisha Amina Asabe Asiya Balkisu Bilkisu Fadila Fatima Habiba Hadiza Hafsat Halima Hannatu
        Hauwa Jamila Jummai Khadija Ladi Laraba Lubabatu Maimuna Mariya Maryam Murja Nafisa Rabi
        Rakiya Ramatu Rukayya Sadiya Safiya Salamatu Saratu Talatu Ummi Zainab Zaliha Zulaihat
    """),
    _words("""
        Abdullahi Abubakar Adamu Ahmad Aliyu Aminu Audu Baba Bako Bala Balarabe Bello Buba Bukar
        Dantata Danladi Dikko Gambo Garba Gidado Haruna Ibrahim Idris Inuwa Isa Jega Kaita Kangiwa
        Kwankwaso Lawal Magaji Maigari Maikudi Makama Mohammed Musa Nuhu Ribadu Sambo Sani Shagari
        Shehu Suleiman Tambuwal Tanko Umar Usman Waziri Yakubu Yaro Yusuf Zango Zubair
    """),
)

YORUBA = NameStock(
    "yoruba",
    _words("""
        Abiodun Adebayo Adebola Adegoke Adekunle Ademola Adeniyi Adetokunbo Adewale Adeyemi
        Akinwale Ayodeji Ayodele Babajide Babatunde Bamidele Bolaji Dayo Folarin Gbenga Idowu
        Jide Kayode Kehinde Kolawole Lanre Lekan Niyi Oladele Oladipo Olakunle Olalekan Olamide
        Olanrewaju Olaoluwa Olawale Olayinka Olufemi Olumide Olusegun Oluseun Olusola Oluwaseun
        Oluwaseyi Oluwatobi Oluwatosin Opeyemi Rotimi Segun Seun Sunkanmi Taiwo Temitope Tunde
    """),
    _words("""
        Abimbola Abosede Adebisi Adebukola Adedoyin Adeola Aderonke Ajoke Arinola Ayinke Bisola
        Bolanle Bukola Damilola Ebunoluwa Eniola Enitan Folake Folasade Funmilayo Ibironke Ibukun
        Idowu Iyabo Kehinde Kemi Modupe Mojisola Morenike Mosunmola Olajumoke Olubunmi Olufunke
        Oluwakemi Omolara Omotola Remilekun Ronke Simisola Titilayo Toyin Yetunde Yewande
    """),
    _words("""
        Abiola Adebayo Adebisi Adedeji Adegbite Adekoya Adeleke Adelabu Ademola Adeniji Adeola
        Aderibigbe Adesanya Adesina Adeyemi Adeyinka Afolabi Afolayan Ajayi Ajibade Akande Akinola
        Akinsanya Akintola Alabi Alade Aluko Amosun Aregbesola Ariyo Awolowo Ayeni Babalola
        Badmus Balogun Bamgbose Daramola Dosunmu Fagbemi Fashola Fasanya Fayemi Ige Kuti Ladipo
        Lawal Odunsi Ogunleye Ogunbanjo Okunola Oladipo Olaniyan Olatunji Olawuyi Oni Oyelaran
        Oyedepo Popoola Salami Shonibare Sanni Sowande Tinubu
    """),
)

IGBO = NameStock(
    "igbo",
    _words("""
        Amaechi Arinze Azubuike Chibueze Chibuike Chibuzor Chidi Chidiebere Chidubem Chigozie
        Chijioke Chika Chikezie Chima Chinedu Chinonso Chukwudi Chukwuebuka Chukwuemeka Chukwuka
        Chukwuma Ebuka Ejike Emeka Emenike Ifeanyi Ikechukwu Ikenna Izuchukwu Kelechi Kenechukwu
        Nnaemeka Nnamdi Nonso Obinna Obiora Okechukwu Okwudili Onyeka Onyekachi Somtochukwu Tochukwu
        Uche Uchenna Uchechukwu Udoka Ugochukwu Uzoma
    """),
    _words("""
        Adaeze Adaobi Adanna Amaka Amarachi Chiamaka Chidinma Chikaodili Chinasa Chinelo Chinenye
        Chinwe Chioma Chizoba Ebele Ekene Ezinne Ginika Ifeoma Ifeyinwa Ijeoma Kosisochukwu
        Ngozi Nkechi Nkiruka Nneka Nnenna Nwakaego Nwamaka Obiageli Oge Ogechi Oluchi Onyinye
        Somadina Uchechi Uju Ugonna Uloma
    """),
    _words("""
        Achebe Agu Anyanwu Aneke Aniekwe Azikiwe Chukwu Chukwuma Duru Egwu Eke Ekwueme Emecheta
        Enwerem Eze Ezeani Ezekwesili Ezenwa Ibe Ibekwe Iheanacho Ikpeazu Iwu Madueke Mbah Mbanefo
        Ndukwe Njoku Nnadi Nnamani Nwachukwu Nwafor Nwankwo Nwosu Nzeribe Obasi Obi Obiano
        Odumegwu Ogbonna Okafor Okeke Okereke Okoli Okonkwo Okorie Okoro Okoye Onwuka Onyema
        Opara Orji Ozoemena Soludo Udeh Ugwu Ugwuanyi Umeh Uzor
    """),
)

OTHERS = NameStock(
    "others",
    _words("""
        Aondona Asuquo Bassey Boma Dagogo David Ebiowei Edidiong Effiong Efosa Emmanuel Ekpenyong
        Etim Godwin Goodluck Idahosa Imoh Iyobosa James John Joseph Kingsley Michael Nosa Osagie
        Osaro Osas Otobong Oyinkansola Peter Samuel Sunday Tamuno Tarila Terver Terna Tersoo
        Timipre Tonye Ubong Udeme Victor Yohanna
    """),
    _words("""
        Arit Atim Blessing Comfort Doofan Ebiere Eki Elizabeth Esther Faith Gift Glory Grace
        Ibifuro Idara Imaobong Inemesit Itohan Iveren Joy Kator Mary Mercy Mfon Ngufan Osarugue
        Patience Peace Preye Rejoice Ruth Sarah Soibifaa Stella Tamunoibi Uwana Veronica Warebi
    """),
    _words("""
        Abang Adoki Agbaje Aigbe Akpan Akpabio Alamieyeseigha Amachree Archibong Asemota Attah
        Bassey Briggs Clark Dickson Dokubo Duke Edet Ekanem Ekong Ekpo Enahoro Essien Etuk Eyo
        Gowon Gyang Ibaba Idahosa Igbinedion Igbinovia Ikpe Inyang Iyayi Jack Jonathan Kpodo Nyam
        Obaseki Odili Okon Omoregie Osunde Orubebe Pam Peterside Tarka Udoh Udom Ukpong Umoren
        Uwaifo Wike Yar
    """),
)

ENGLISH_MEN = _words("""
    Anthony Benjamin Charles Christopher Clement Collins Daniel David Ebenezer Emmanuel Felix
    Francis Gabriel George Gideon Henry Isaac Jacob Jeremiah John Jonathan Joseph Joshua Jude
    Kenneth Lawrence Matthew Michael Moses Nathaniel Oscar Patrick Paul Peter Philip Raymond
    Richard Samson Samuel Simon Solomon Stephen Sunday Theophilus Thomas Timothy Valentine Victor
""")
ENGLISH_WOMEN = _words("""
    Abigail Agnes Angela Beatrice Blessing Catherine Charity Christiana Comfort Deborah Dorcas
    Elizabeth Esther Eunice Favour Florence Gift Gloria Grace Hannah Helen Janet Joy Juliet
    Lydia Margaret Martha Mary Mercy Miriam Naomi Patience Peace Praise Precious Priscilla Rachel
    Rebecca Rose Ruth Sarah Susan Theresa Victoria Virginia Vivian Winifred
""")

STOCKS = (HAUSA, YORUBA, IGBO, OTHERS)
