"""the extension, the tables, and a schedule"""

from alembic import op
from models import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.execute("CREATE EXTENSION IF NOT EXISTS scheduler")
    op.execute("CREATE SCHEMA billing")
    metadata.create_all(op.get_bind())
    op.execute("SELECT sched.define_job('invoice')")
    op.execute("SELECT sched.create_schedule('monthly invoices', '0 6 1 * *', 'invoice')")


def downgrade() -> None:
    op.execute("SELECT sched.drop_schedule('monthly invoices'), sched.drop_job('invoice')")
    metadata.drop_all(op.get_bind())
    op.execute("DROP SCHEMA billing")
