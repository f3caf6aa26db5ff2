//! Lengths of time for people.

use super::instant::MICROS_PER_SECOND;

/// A length in microseconds by its two largest units: `3.2 s`, `4 min 10 s`, `2 d 3 h`.
#[must_use]
pub fn duration(micros: i64) -> String {
    let micros = micros.max(0);
    let seconds = micros / MICROS_PER_SECOND;
    let two = |large: i64, unit: &str, small: i64, of: &str| {
        if small == 0 {
            format!("{large} {unit}")
        } else {
            format!("{large} {unit} {small} {of}")
        }
    };
    match seconds {
        0 if micros < 1_000 => "under 1 ms".to_owned(),
        0 => format!("{} ms", micros / 1_000),
        1..=9 => {
            let tenths = micros / 100_000;
            if tenths % 10 == 0 {
                format!("{} s", tenths / 10)
            } else {
                format!("{}.{} s", tenths / 10, tenths % 10)
            }
        }
        10..=59 => format!("{seconds} s"),
        60..=3_599 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..=86_399 => two(seconds / 3_600, "h", seconds / 60 % 60, "min"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_two_units() {
        for (micros, text) in [
            (-1, "under 1 ms"),
            (999, "under 1 ms"),
            (42_000, "42 ms"),
            (1_000_000, "1 s"),
            (3_290_000, "3.2 s"),
            (10_900_000, "10 s"),
            (250_000_000, "4 min 10 s"),
            (7_200_000_000, "2 h"),
            (183_600_000_000, "2 d 3 h"),
        ] {
            assert_eq!(duration(micros), text);
        }
    }
}
