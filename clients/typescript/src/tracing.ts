// OpenTelemetry, where @opentelemetry/api is installed: a span for each run, under the one that enqueued it.
import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Hooks } from './index.js';

/** The payload with the present trace context, in `_trace`: `enqueue(db, 'report', traced({ day }))`. */
export function traced<P extends object>(payload: P): P & { _trace: Record<string, string> } {
  const carrier: Record<string, string> = {};
  propagation.inject(context.active(), carrier);
  return { ...payload, _trace: carrier };
}

/** The context that the payload carries. */
function carried(payload: string): Record<string, string> {
  return (JSON.parse(payload) as { _trace?: Record<string, string> } | null)?._trace ?? {};
}

/** `new Worker(…, { hooks: tracing() })` */
export function tracing(): Hooks {
  return {
    around(run, call) {
      const parent = propagation.extract(context.active(), carried(run.payloadText));
      const attributes = { 'messaging.system': 'pg_scheduler', 'messaging.message.id': run.executionId, 'pg_scheduler.attempt': run.attempt };
      return trace.getTracer('pg-scheduler').startActiveSpan(run.jobName, { kind: SpanKind.CONSUMER, attributes }, parent, async (span) => {
        try {
          return await call();
        } catch (error) {
          span.setStatus({ code: SpanStatusCode.ERROR, message: String(error) });
          throw error;
        } finally {
          span.end();
        }
      });
    },
  };
}
