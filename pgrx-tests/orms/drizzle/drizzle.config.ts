import { defineConfig } from 'drizzle-kit';

const { PGHOST, PGDATABASE, PGUSER, SCHEMAS } = process.env;

export default defineConfig({
  dialect: 'postgresql',
  schema: './schema.ts',
  out: './out',
  dbCredentials: { url: `postgresql://${PGUSER}@/${PGDATABASE}?host=${encodeURIComponent(PGHOST!)}` },
  schemaFilter: ['public', 'billing'],
  // What a test says in its place.
  ...(SCHEMAS === undefined ? {} : { schemaFilter: SCHEMAS === 'default' ? undefined : SCHEMAS.split(' ') }),
});
