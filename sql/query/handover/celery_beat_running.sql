-- None: what Beat runs is to send a message, and that is done at once.
SELECT NULL::text AS id WHERE false
