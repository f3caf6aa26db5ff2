// A caller's transaction, in which a savepoint is to each run what a transaction is otherwise.
import type { Client, QueryResult, QueryResultRow } from 'pg';
import { Session } from './session.js';

const NAME = 'pg_scheduler';

export class Savepoints extends Session {
  protected override readonly undo: string = '';

  constructor(db: Client) {
    super(db, { isOurs: false });
  }

  override async begin(): Promise<void> {
    await this.note(`SAVEPOINT ${NAME}`);
  }

  override async commit(): Promise<void> {
    await this.db.query(`RELEASE SAVEPOINT ${NAME}`);
  }

  override async rollback(): Promise<void> {
    await this.db.query(`ROLLBACK TO SAVEPOINT ${NAME}; RELEASE SAVEPOINT ${NAME}`);
  }

  protected override async alone(statement: string): Promise<QueryResultRow[]> {
    await this.db.query(`SAVEPOINT ${NAME}`);
    try {
      const results = (await this.db.query(`${statement}; RELEASE SAVEPOINT ${NAME}`)) as unknown as QueryResult[];
      return results[results.length - 2]!.rows;
    } catch (error) {
      await this.rollback();
      throw error;
    }
  }

  override async clean(): Promise<void> {}

  override async close(): Promise<void> {
    this.forget();
  }
}
