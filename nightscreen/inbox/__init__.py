"""Files dropped into the inbox: arrived, new, screened, reported."""
