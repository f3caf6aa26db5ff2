// The handlers of the conformance worker, for the recipe in Go (docs/guides/write-a-worker.md).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v4"
)

type payload struct {
	Number  *int
	To      *string
	Seconds *float64
}

func read(run Run) (read payload) {
	if err := json.Unmarshal(run.Payload, &read); err != nil {
		panic(err)
	}
	return read
}

func insert(ctx context.Context, tx pgx.Tx, run Run, what *string) error {
	_, err := tx.Exec(ctx, "insert into effect (execution_id, attempt, what) values ($1, $2, $3)", run.ID, run.Attempt, what)
	return err
}

func effect(ctx context.Context, tx pgx.Tx, run Run) (any, error) {
	return map[string]any{"done": read(run).Number}, insert(ctx, tx, run, nil)
}

func typed(ctx context.Context, tx pgx.Tx, run Run) (any, error) {
	return nil, insert(ctx, tx, run, read(run).To)
}

func fail(ctx context.Context, tx pgx.Tx, run Run) (any, error) {
	if err := insert(ctx, tx, run, nil); err != nil {
		return nil, err
	}
	return nil, errors.New("told to fail")
}

func retry(_ context.Context, _ pgx.Tx, run Run) (any, error) {
	if run.Attempt == 1 {
		return nil, Retry{After: 200 * time.Millisecond}
	}
	return nil, nil
}

func discard(context.Context, pgx.Tx, Run) (any, error) {
	return nil, Discard{"of no use"}
}

func slow(ctx context.Context, tx pgx.Tx, run Run) (any, error) {
	seconds := 60.0
	if given := read(run).Seconds; given != nil {
		seconds = *given
	}
	if _, err := tx.Exec(ctx, "select pg_sleep($1)", seconds); err != nil {
		return nil, err
	}
	return nil, insert(ctx, tx, run, nil)
}

func main() {
	Work("conformance", map[string]Handler{
		"effect": effect, "typed": typed, "fail": fail, "retry": retry, "discard": discard, "slow": slow, "batch": effect,
	})
}
