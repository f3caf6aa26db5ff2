//! The server's zones: what `preview` shows against `AT TIME ZONE` at the transitions of every zone, and the tz database itself
//! against chrono-tz's.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use std::collections::BTreeMap;

    use chrono::{DateTime, Offset, TimeZone};
    use chrono_tz::{Tz, TZ_VARIANTS};
    use pgrx::prelude::*;
    use scheduler_core::zone::Zone;

    use crate::test_support::{quote, sql};
    use crate::zone::ServerZone;

    const DAY: i64 = 86_400;
    /// 1970-01-01 and 2038-01-01.
    const FROM: i64 = 0;
    const TO: i64 = 2_145_916_800;

    fn chrono_offset(tz: Tz, second: i64) -> i32 {
        let utc = DateTime::from_timestamp(second, 0).unwrap().naive_utc();
        tz.offset_from_utc_datetime(&utc).fix().local_minus_utc()
    }

    /// The seconds from 1970 to 2037 at which this zone of the server may change, by its own account.
    fn boundaries(zone: &ServerZone, from: i64, to: i64) -> Vec<i64> {
        let mut out = Vec::new();
        let mut at = from;
        while let Some(next) = zone.span_at(at).until.filter(|&next| next < to) {
            assert!(next > at, "a boundary that is not ahead");
            out.push(next);
            at = next;
        }
        out
    }

    #[pg_test]
    fn dump_zone_differences() {
        let mut out: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for tz in TZ_VARIANTS {
            let Ok(zone) = ServerZone::find(tz.name()) else {
                out.entry(tz.name()).or_default().push("unknown".to_owned());
                continue;
            };
            let mut at = FROM;
            while at < TO {
                let span = zone.span_at(at);
                let until = span.until.unwrap_or(TO).min(TO);
                let mut second = at;
                while second < until {
                    let other = chrono_offset(tz, second);
                    if other != span.utc_offset_seconds {
                        out.entry(tz.name()).or_default().push(format!("{} {} {}", DateTime::from_timestamp(second,0).unwrap(), span.utc_offset_seconds, other));
                        break;
                    }
                    if second == until - 1 { break; }
                    second = (second + 3 * DAY).min(until - 1);
                }
                at = until;
            }
        }
        for (name, lines) in out { pgrx::warning!("{name}: {} {:?}", lines.len(), &lines[..lines.len().min(4)]); }
    }
}
