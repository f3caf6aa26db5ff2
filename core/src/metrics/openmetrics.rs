//! OpenMetrics text. What crates for it offer keeps the numbers itself and escapes no label (prometheus-client), so it is written here.

use std::fmt::Write as _;

use super::family::Family;
use super::sample::Sample;

/// The text of all samples, family by family in their order.
#[must_use]
pub fn encode(samples: &[Sample]) -> String {
    let mut out = String::with_capacity(samples.len() * 80);
    for family in Family::ALL {
        let mut own = samples.iter().filter(|sample| sample.family == *family).peekable();
        if own.peek().is_none() {
            continue;
        }
        let name = family.name();
        let _ = writeln!(out, "# TYPE {name} {}", family.kind().as_str());
        if let Some(unit) = family.unit() {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        let _ = write!(out, "# HELP {name} ");
        escape(&mut out, family.help());
        out.push('\n');
        for sample in own {
            let _ = write!(out, "{name}{}", sample.suffix);
            for (number, (label, value)) in sample.labels.iter().enumerate() {
                let _ = write!(out, "{}{label}=\"", if number == 0 { '{' } else { ',' });
                escape(&mut out, value);
                out.push('"');
            }
            if !sample.labels.is_empty() {
                out.push('}');
            }
            let _ = writeln!(out, " {}", Number(sample.value));
        }
    }
    out.push_str("# EOF\n");
    out
}

fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

/// A number as the text has it.
struct Number(f64);

impl std::fmt::Display for Number {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_infinite() {
            out.write_str(if self.0 > 0.0 { "+Inf" } else { "-Inf" })
        } else {
            write!(out, "{}", self.0)
        }
    }
}
