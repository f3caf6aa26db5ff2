//! From other schedulers. Each of them is one file with a `Source`: where its tables are and what its rows say, in our terms. The rest is
//! the same for all: `import`.

mod before;
mod candidates;
mod celery_beat;
mod clocks;
mod compare;
mod database_zone;
mod differences;
mod elsewhere;
mod hand_back;
mod import;
mod known;
mod moment;
mod pg_cron;
mod pg_timetable;
mod pgagent;
mod ready;
mod report_fire;
mod source;
mod take_over;
mod timescaledb;
