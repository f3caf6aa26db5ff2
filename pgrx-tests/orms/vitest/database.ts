import pg from 'pg';

export default async function setup(): Promise<void> {
  const server = new pg.Client();
  await server.connect();
  await server.query('DROP DATABASE IF EXISTS test_app');
  await server.query('CREATE DATABASE test_app');
  await server.end();
  process.env.PGDATABASE = 'test_app';
  const db = new pg.Client();
  await db.connect();
  await db.query('CREATE EXTENSION scheduler');
  await db.query('SELECT sched.test_mode()');
  // The migrations of the application follow:
  await db.query("SELECT sched.define_job('welcome', queue => 'mail'), sched.define_job('pulse')");
  await db.query("SELECT sched.create_schedule('pulse', 'every 1 second', 'pulse')");
  await db.end();
}
