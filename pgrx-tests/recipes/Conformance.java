// The handlers of the conformance worker, for the recipe in Java (docs/guides/write-a-worker.md).
import java.sql.*;
import java.util.*;
import java.util.regex.*;

class Conformance {
    /** A member of a flat JSON object. The JDK has no reader of JSON. */
    static String member(String json, String name) {
        var found = Pattern.compile("\"" + name + "\"\\s*:\\s*\"?([^,}\"]*)").matcher(json);
        return found.find() ? found.group(1) : null;
    }

    static String insert(Connection db, Worker.Run run, String what) throws SQLException {
        try (var statement = db.prepareStatement("insert into effect (execution_id, attempt, what) values (?, ?, ?)")) {
            statement.setObject(1, run.id());
            statement.setInt(2, run.attempt());
            statement.setString(3, what);
            statement.executeUpdate();
        }
        return null;
    }

    static String effect(Connection db, Worker.Run run) throws SQLException {
        insert(db, run, null);
        return "{\"done\": " + member(run.payload(), "number") + "}";
    }

    /** With an Error, which is no Exception: nothing of it is committed with the next run. */
    static String fail(Connection db, Worker.Run run) throws Exception {
        insert(db, run, null);
        throw new AssertionError("told to fail\0");
    }

    static String retry(Connection db, Worker.Run run) throws Worker.Retry {
        if (run.attempt() == 1) throw new Worker.Retry("once more", 0.2);
        return null;
    }

    static String discard(Connection db, Worker.Run run) throws Worker.Discard {
        throw new Worker.Discard("of no use");
    }

    static String slow(Connection db, Worker.Run run) throws SQLException {
        var seconds = member(run.payload(), "seconds");
        try (var statement = db.prepareStatement("select pg_sleep(?)")) {
            statement.setDouble(1, seconds == null ? 60 : Double.parseDouble(seconds));
            statement.execute();
        }
        return insert(db, run, null);
    }

    /** The server's address is its argument: the driver knows no Unix sockets. */
    public static void main(String[] arguments) throws InterruptedException {
        var to = System.getenv();
        var url = "jdbc:postgresql://" + arguments[0] + "/" + to.get("PGDATABASE") + "?user=" + to.get("PGUSER");
        new Worker(url, "conformance", Map.of(
            "effect", Conformance::effect, "typed", (db, run) -> insert(db, run, member(run.payload(), "to")), "fail", Conformance::fail,
            "retry", Conformance::retry, "discard", Conformance::discard, "slow", Conformance::slow, "batch", Conformance::effect
        )).work();
    }
}
