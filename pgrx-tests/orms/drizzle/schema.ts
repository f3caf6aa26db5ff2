import { bigint, pgSchema, pgTable, text } from 'drizzle-orm/pg-core';

export const account = pgTable('account', { id: bigint({ mode: 'number' }).primaryKey(), email: text() });
export const billing = pgSchema('billing');
export const invoice = billing.table('invoice', { id: bigint({ mode: 'number' }).primaryKey(), total: bigint({ mode: 'number' }) });
