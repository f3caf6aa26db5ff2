// SIGTERM and SIGINT, which all workers of a process share.

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
const stops = new Set<() => void>();
let isListening = false;

function listen(): void {
  if (!isListening) for (const signal of SIGNALS) process.on(signal, stopAll);
  isListening = true;
}

function unlisten(): void {
  if (isListening) for (const signal of SIGNALS) process.removeListener(signal, stopAll);
  isListening = false;
}

/** The second signal is not for us: it ends the process. */
function stopAll(): void {
  unlisten();
  for (const stop of [...stops]) stop();
}

/** Has `stop` called at the next signal, as that of each other worker; the function that is returned takes it back. */
export function atSignal(stop: () => void): () => void {
  const own = (): void => stop(); // two registrations of one function are two
  stops.add(own);
  listen();
  return () => {
    stops.delete(own);
    if (stops.size === 0) unlisten();
  };
}
