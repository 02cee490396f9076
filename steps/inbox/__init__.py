"""Files dropped into the inbox: arrived, new, screened, told of."""
