import os

from alembic import context
from models import metadata
from sqlalchemy import create_engine


def include_name(name, type_, parent_names) -> bool:
    return not (type_ == "schema" and name in ("sched", "sched_internal"))


with create_engine("postgresql+psycopg://").connect() as connection:
    context.configure(
        connection,
        target_metadata=metadata,
        include_schemas=os.environ.get("INCLUDE_SCHEMAS") == "yes",
        include_name=None if os.environ.get("WITHOUT_THE_LINES") else include_name,
    )
    with context.begin_transaction():
        context.run_migrations()
