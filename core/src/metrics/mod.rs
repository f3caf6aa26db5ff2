//! What is measured: the families of metrics, what one job's executions come to, and the text in which a monitoring system reads all of it.

mod counts;
mod family;
mod openmetrics;
mod sample;

pub use counts::{Counts, Event, WIDTH};
pub use family::{Family, MetricType};
pub use openmetrics::encode;
pub use sample::Sample;
