"""What becomes of claimed executions: their handlers are called, their ends are committed with what those wrote, and their errors are told.

A handler may be called again within one attempt, where a conflict that is not its own keeps its transaction from being committed."""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager, suppress
from typing import Any, AsyncIterator, Callable, Generic, Mapping, Optional, Sequence
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.types.json import Jsonb

from . import statements
from .errors import Cancelled, LeaseLost, Snooze, TransactionEnded, described
from .hooks import Hooks, log
from .json_text import dumps
from .outcomes import Outcome, fixed, is_blameless, outcome
from .runs import AnyRun, Call, Db, Handler, Place, RunBase
from .sessions import Session, Sessions
from .statements import CONFLICTS, PREPARED_ELSEWHERE, Rows, Statement, is_broken
from .transport import Transport, jittered

LOST = psycopg.errors.ObjectNotInPrerequisiteState


class Attempts(Generic[AnyRun, Db]):
    """The part of a worker that one slot does, for what it has claimed."""

    run_type: type[AnyRun]
    transport: Transport[Db]
    #: Where handlers, claims and ends have their connections.
    sessions: Sessions[Db]
    #: One connection for what is said while runs go on.
    control: Sessions[Db]
    hooks: Hooks
    handlers: dict[str, Handler]
    #: By their ids here: an execution may come again before its last run has ended.
    held: dict[int, AnyRun]
    transaction: str
    is_stopping: bool
    #: Whether ends wait for a server that is away, as long as their leases last. (Who drains hears of it.)
    awaits_server = False
    _read: Callable[[str], Any]
    _count: Callable[[int], None]
    _claims: Callable[[Place], Statement]

    def _take(self, rows: Sequence[Sequence[Any]]) -> list[Call[AnyRun, Db]]:
        """Holds what was claimed. A call is done in one transaction: a run, or the runs that a batch handler gets."""
        groups: dict[object, list[AnyRun]] = {}
        for row in rows:
            run = self.run_type(*row)
            groups.setdefault(run.job_name if self._handler(run.job_name).is_batch else id(run), []).append(run)
        calls = [Call[AnyRun, Db](self, group, self._handler(group[0].job_name)) for group in groups.values()]
        self.held.update({id(run): run for call in calls for run in call.runs})
        return calls

    def _handler(self, job_name: str) -> Handler:
        def unknown(_: object) -> None:
            raise LookupError(f'no handler for job "{job_name}" (this worker has: {", ".join(sorted(self.handlers)) or "none"})')

        return self.handlers.get(job_name) or self.handlers.get("*") or Handler(unknown, None, False)

    async def work_on(self, place: Place, calls: list[Call[AnyRun, Db]], session: Optional[Session[Db]]) -> list[Call[AnyRun, Db]]:
        """Does what was claimed; what was claimed with the end of the last. session: None where handlers have no transaction."""
        following: list[Call[AnyRun, Db]] = []
        try:
            for call in calls:
                if self.is_stopping:
                    await self.give_back(call.runs)
                    continue
                place.is_unanswered = is_last = call is calls[-1]
                claims = self._claims(place) if is_last else None
                claimed = await (self._attempt_apart(call, claims) if session is None else self._attempt(session, call, claims))
                following = self._take(claimed)
                place.is_unanswered = call.is_repeated
                self._tell_committed(call)
        except Exception:  # nobody works on these any more
            self._release(*calls, *following)
            await self.give_back([run for call in (*calls, *following) if not call.is_told for run in call.runs])
            raise
        self._release(*calls)  # where this is cancelled, the worker gives back what is held
        return following

    def _release(self, *calls: Call[AnyRun, Db]) -> None:
        """No heartbeat is sent for these any more."""
        for call in calls:
            for run in call.runs:
                self.held.pop(id(run), None)

    async def give_back(self, runs: Sequence[RunBase[Any, Db]]) -> None:
        """Without an attempt lost; those that have ended stay as they are. Where there is no server for so long, their leases run out."""
        for run in runs:
            try:
                await self._say_apart(statements.snooze(run.execution_id, run.lease_token), run, self._is_awaited)
            except psycopg.OperationalError as error:
                if is_broken(error):
                    return
            except psycopg.Error:
                continue

    async def _say_apart(self, statement: Statement, run: RunBase[Any, Db], waits: Callable[[RunBase[Any, Db]], bool]) -> Optional[Rows]:
        """On the worker's own connection, or a new one where that has broken, and more of them while it waits; None where the lease is lost."""
        is_first = True
        while True:
            try:
                async with self.control.session() as session:
                    try:
                        return await session.say(statement, lambda: run.lease_ended)
                    except LOST:
                        return None
            except psycopg.OperationalError as error:
                if not is_broken(error) or not is_first and not waits(run):
                    raise
            if not is_first:
                await self.transport.sleep(jittered(0.2))
            is_first = False

    def _is_awaited(self, run: RunBase[Any, Db]) -> bool:
        return self.awaits_server and not run.lease_ended

    async def _attempt(self, session: Session[Db], call: Call[AnyRun, Db], claims: Optional[Statement]) -> Rows:
        """Calls the handler and ends its runs; the rows of what was claimed with that."""
        if session.is_used:  # where the last run has failed
            await session.reset()
        if not session.is_fit:
            raise psycopg.OperationalError("the session of the last run cannot be used again")
        while True:
            try:
                async with session.transaction() as transaction:
                    call.lend(session.db)
                    try:
                        returned = await self._handled(call)
                    finally:
                        call.lend(None)
                        session.is_used |= call.used_db
                    claimed = await self._settle(session, call, returned, claims)
                    transaction.is_followed = claims is None or bool(claimed)
                break
            except (Exception, SystemExit) as error:
                if session.db.closed:
                    await self._report_broken(session, call, error)
                    call.is_told = True
                    raise psycopg.OperationalError(str(error)) from error
                if not await self._begins_again(session, call, error):
                    # A cancel that hits what follows the commit looks as if that had failed: what it claimed is given back.
                    call.is_repeated = call.is_handled
                    await self._report(session, call, error, set())
                    return ()
        call.is_committed = True
        return claimed

    async def _attempt_apart(self, call: Call[AnyRun, Db], claims: Optional[Statement]) -> Rows:
        """The same, without a connection while the handler runs."""
        while True:
            try:
                returned = await self._handled(call)
                if call.conflict is not None:  # which the handler has swallowed
                    raise call.conflict
                if call.cut_off is not None:
                    raise call.cut_off
                claimed: Rows = ()
                if not call.is_finished:
                    claimed = await self._settle_apart(call, returned, claims)
                break
            except (Exception, SystemExit) as error:
                if call.is_finished:
                    log.warning("%s: raised after it had ended", call.runs[0], exc_info=error)
                    claimed = ()
                    break
                if call.cut_off is not None:
                    await self.give_back(call.runs)
                    return ()
                if not await self._begins_again(None, call, error):
                    await self._report_apart(self.sessions, call, error)
                    return ()
        call.is_committed = True
        return claimed

    async def _begins_again(self, session: Optional[Session[Db]], call: Call[AnyRun, Db], error: BaseException) -> bool:
        """Whether the handler is called again, in this attempt: what failed was the commit, or what a pooler had made of prepared statements."""
        if call.lease_ended or self.is_stopping or any(run.stop_reason for run in call.runs):
            return False
        if isinstance(error, PREPARED_ELSEWHERE) and session is not None:
            if not session.unprepare():
                return False
        elif call.conflict is not None or isinstance(error, CONFLICTS) and call.is_handled:
            await self.transport.sleep(jittered(0.05))
        else:
            return False
        call.begin()
        return True

    async def _handled(self, call: Call[AnyRun, Db]) -> object:
        """What the handler returns."""
        for run in call.runs:
            run.payload = self._read(run.payload_text)
        with self.hooks.around(call.runs[0]):
            if call.handler.payload is not None:
                for run in call.runs:
                    run.payload = call.handler.payload(run.payload)
            try:
                returned = await self.transport.call(call, call.runs if call.handler.is_batch else call.runs[0])
            except Snooze as snooze:
                call.snoozed, returned = snooze.until, None
        if not call.is_finished:
            call.check()
        return returned

    async def _settle(self, session: Session[Db], call: Call[AnyRun, Db], returned: object, claims: Optional[Statement]) -> Rows:
        """Ends the runs and claims the next, for the commit of what they wrote; raises where that cannot be."""
        if session.db.closed and not session.db.broken:
            raise TransactionEnded("the handler has closed its connection")
        call.is_handled = True
        status = session.db.pgconn.transaction_status
        if status == TransactionStatus.INERROR and call.snoozed is not None:
            raise Snooze(call.snoozed)  # without what is lost anyway
        if status == TransactionStatus.IDLE:
            raise TransactionEnded("the handler has ended its transaction: COMMIT and ROLLBACK are the worker's to say")
        if call.used_db:
            await session.take_back_role()
        first, claimed = await self._end(session, call, returned, None if self.is_stopping else claims)
        for mark, lost, *_ in first:
            if session.is_own and mark != "here":
                raise TransactionEnded("the handler has ended its transaction and begun another, or reset its settings: COMMIT and ROLLBACK are the worker's to say")
            if isinstance(lost, list):
                await self._require_ended_by_handler(session, call, lost)
        return claimed

    async def _end(self, session: Session[Db], call: Call[AnyRun, Db], returned: object, claims: Optional[Statement]) -> tuple[Rows, Rows]:
        """Rows of mark and lost leases; and of what was claimed."""
        if call.snoozed is not None:
            snoozed = [await session.ask(statements.snooze(run.execution_id, run.lease_token, call.snoozed)) for run in call.runs]
            return [rows[0] for rows in snoozed], ()
        if isinstance(returned, (Mapping, list, tuple)) and not call.handler.is_batch:
            [run] = call.runs
            ended = await session.ask(statements.finish_with_result(run.execution_id, run.lease_token, Jsonb(returned, dumps)))
            return ended, await session.ask(claims) if claims is not None else ()
        if claims is None:
            return await session.ask(statements.finish(call.keys)), ()
        rows = await session.ask(statements.finish_and_claim(call.keys, claims))
        return rows[:1], [row[2:] for row in rows if row[2] is not None]

    async def _require_ended_by_handler(self, session: Session[Db], call: Call[AnyRun, Db], lost: list[UUID]) -> None:
        """Raises where a lease was lost, and not given up by the handler's own snooze or finish, in this transaction.

        Others still see a lease that this transaction has given up."""
        runs = [run for run in call.runs if run.execution_id in lost]
        if not call.used_db:
            raise LeaseLost("the lease is lost")
        if session.is_own:
            async with self.control.session() as other:
                rows = await other.say(statements.heartbeat(([run.execution_id for run in runs], [run.lease_token for run in runs])), lambda: call.lease_ended)
            if any(answer == "lost" for (answer,) in rows):
                raise LeaseLost("the lease is lost")
        for run in runs:
            [[status, _]] = await session.ask(statements.statuses([run.execution_id]))
            if status == "RUNNING":
                raise LeaseLost("the lease is lost")
            call.ended[run.execution_id] = str(status)

    @asynccontextmanager
    async def finishing(self, call: Call[AnyRun, Db], result: object) -> AsyncIterator[Db]:
        """The transaction at the end of a handler, which commits with the end of its runs."""
        if self.transaction == "run":
            raise RuntimeError('run.finishing() is for Worker(…, transaction="finish"): run.db is open already')
        if call.is_finished or call.lent is not None:
            raise RuntimeError("run.finishing() ends a run once")
        raised: Optional[Snooze] = None
        try:
            async with self._begun(call) as session:
                call.lend(session.db)
                try:
                    yield call.connection()
                except Snooze as snooze:
                    raised, call.snoozed = snooze, snooze.until
                finally:
                    call.lend(None)
                    call.interrupt = None  # the end is not interrupted
                    session.is_used |= call.used_db
                call.check()
                await self._settle(session, call, result, None)
        except CONFLICTS as error:
            if call.is_handled:
                call.conflict = error
            raise
        except PREPARED_ELSEWHERE as error:
            if session.unprepare():
                self.sessions.prepare, call.conflict = False, error
            raise
        call.is_finished = True
        self._release(call)
        if raised is not None:
            raise raised

    @asynccontextmanager
    async def _begun(self, call: Call[AnyRun, Db]) -> AsyncIterator[Session[Db]]:
        """A transaction. Where the server is away it begins once that is back, while the lease lasts: a handler has done its work by then."""
        while True:
            is_begun = False
            try:
                async with self.sessions.session() as session:
                    try:
                        async with session.transaction():
                            is_begun = True
                            yield session
                    except Exception as error:
                        if is_begun and self.awaits_server and session.db.broken and is_blameless(session, call, error):
                            call.cut_off = error
                        raise
                return
            except psycopg.OperationalError as error:
                if is_begun or not is_broken(error) or any(run.stop_reason or not self._is_awaited(run) for run in call.runs):
                    raise
                await self.transport.sleep(jittered(0.2))

    async def _settle_apart(self, call: Call[AnyRun, Db], returned: object, claims: Optional[Statement]) -> Rows:
        """Ends what a handler without a transaction has done; nothing of its work is to be done again for a conflict or a broken connection."""
        while True:
            try:
                async with self.sessions.session() as session:

                    async def once() -> Rows:
                        async with session.transaction():
                            return await self._settle(session, call, returned, claims)

                    claimed: Rows = await session.again_at_conflict(once, lambda: call.lease_ended)
                    return claimed
            except psycopg.OperationalError as error:
                if not is_broken(error) or any(run.stop_reason or not self._is_awaited(run) for run in call.runs):
                    raise
                call.is_repeated = True
                await self.transport.sleep(jittered(0.2))

    def _tell_committed(self, call: Call[AnyRun, Db]) -> None:
        for run in call.runs if call.is_committed else ():
            status = call.ended.get(run.execution_id, "PENDING" if call.snoozed is not None else "SUCCESS")
            if status == "SUCCESS":
                self._count(1)
                self._tell_of(self.hooks.succeeded, run)
            elif status == "PENDING":
                self._tell_of(self.hooks.snoozed, run)
            else:  # it has said so itself
                self._count(1)
                log.info("%s: its handler has ended it as %s", run, status)

    def _tell_of(self, hook: Callable[..., None], *what: object) -> None:
        """What a hook raises is not taken for a connection that broke."""
        try:
            hook(*what)
        except psycopg.Error as error:
            raise RuntimeError("a hook has failed") from error

    async def _report_broken(self, session: Session[Db], call: Call[AnyRun, Db], error: BaseException) -> None:
        """Of runs whose connection is gone."""
        if is_blameless(session, call, error):
            return await self.give_back(call.runs)
        with suppress(psycopg.Error):
            await self._report_apart(self.control, call, error)

    async def _report_apart(self, sessions: Sessions[Db], call: Call[AnyRun, Db], error: BaseException) -> None:
        """On another connection. Where the server is away once it is back, while the lease lasts: what counts is not given back instead."""
        reported: set[int] = set()
        while True:
            try:
                async with sessions.session() as session:
                    return await self._report(session, call, error, reported)
            except psycopg.OperationalError as broken:
                if not is_broken(broken) or not all(self._is_awaited(run) for run in call.runs):
                    raise
                await self.transport.sleep(jittered(0.2))

    async def _report(self, session: Session[Db], call: Call[AnyRun, Db], error: BaseException, reported: set[int]) -> None:
        """Tells the ledger what became of runs whose transaction was rolled back, but for those that are reported already."""
        # Where others of its batch were to stop, or the worker was before it began. (A handler that says Cancelled unasked has failed.)
        is_given_back = any(run.stop_reason for run in call.runs) or isinstance(error, Cancelled if self.is_stopping else LeaseLost)
        for run in (run for run in call.runs if id(run) not in reported):
            said = await self._say(session, run, error, is_given_back)
            reported.add(id(run))
            if said is None:
                self._tell_of(self.hooks.lost, run)
            elif said.is_failure:
                self._count(1)
                self._tell_of(self.hooks.failed, run, error)
            elif isinstance(error, Snooze):
                self._tell_of(self.hooks.snoozed, run)

    async def _say(self, session: Session[Db], run: AnyRun, error: BaseException, is_given_back: bool) -> Optional[Outcome]:
        """None where the lease is lost."""
        note = ""
        for left in 2, 1, 0:  # once more, for a cancel may come late, or a hook fail; then what the ledger takes for sure
            try:
                said = outcome(run, error, is_given_back, note) if left else fixed(run, error)
                if said is not None:
                    await session.again_at_conflict(lambda: self._say_once(session, run, said, not note and left > 0), lambda: run.lease_ended)
                return said
            except LOST:
                return None
            except _HookFailed as failed:
                note = f"\n\non_dead: {described(failed.error)[1]}"
                log.warning("%s: on_dead has failed", run, exc_info=failed.error)
            except Exception:
                if session.db.closed or left == 0:
                    raise
        return None

    async def _say_once(self, session: Session[Db], run: AnyRun, said: Outcome, tells_dead: bool) -> None:
        async with session.transaction():
            await session.ask(said.statement)
            if tells_dead and said.is_failure and self.hooks.hears_of_dead():
                [[status, is_to_come]] = await session.ask(statements.statuses([run.execution_id]))
                if status == "FAILED" and not is_to_come:
                    await self._tell_dead(session, run)

    async def _tell_dead(self, session: Session[Db], run: AnyRun) -> None:
        session.is_used = True
        run.call.lend(session.db)
        try:
            told = self.hooks.on_dead(run)
            if inspect.isawaitable(told):
                await told
        except CONFLICTS:
            raise
        except Exception as error:
            raise _HookFailed(error) from error
        finally:
            run.call.lend(None)

    async def progress(self, run: RunBase[Any, Db], progress: Mapping[str, Any]) -> None:
        """At once, whatever the run's transaction does; raises Cancelled or LeaseLost where the run is to stop."""
        run.check()
        said = statements.progress(run.execution_id, run.lease_token, Jsonb(progress, dumps))
        try:
            rows = await self._say_apart(said, run, lambda _: False)
        except psycopg.OperationalError as error:  # the run's own transaction has locked its lease, or the server is away
            log.info("%s: its progress is not shown: %s", run, error)
            return
        answer = "lost" if rows is None else str(rows[0][0])
        if answer != "ok":
            run.stop_reason = run.stop_reason or answer
        run.check()


class _HookFailed(Exception):
    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error
