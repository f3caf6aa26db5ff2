"""The application's tables: one in the schema `public`, one in a schema of its own."""

from sqlalchemy import MetaData, Table, Column, BigInteger, Text

metadata = MetaData()
Table("account", metadata, Column("id", BigInteger, primary_key=True), Column("email", Text, nullable=False, unique=True))
Table("invoice", metadata, Column("id", BigInteger, primary_key=True), Column("total", BigInteger), schema="billing")
