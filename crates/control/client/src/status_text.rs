//! Formats parts of a status as text.
use command_line::{count, plain, short, utc};
use zone_manager::status::{StatusHistogram, ZoneStatus};

/// The time within which this share of all events ended; `-` without events.
pub fn quantile(histogram: &StatusHistogram, share: f64) -> String {
    match histogram.quantile(share) {
        None => "-".into(),
        Some(time) if time.is_finite() => short(time),
        // The last bucket has no upper bound, only a lower one.
        Some(_) => match histogram.bounds_seconds.last() {
            Some(bound) => format!(">{}", short(*bound)),
            None => "-".into(),
        },
    }
}

/// Says that a zone's file is held, and what to do about it.
pub fn held(zone: &ZoneStatus) -> Option<String> {
    let held = zone.held?;
    let (has, had, name) = (count(held.has), count(held.had), plain(&zone.name));
    Some(format!(
        "held: its file has {has} of the {had} served names; `dunlin zones accept {name}` serves \
         the file nevertheless"
    ))
}

/// Says that another process is writing a zone's file.
pub fn writing(zone: &ZoneStatus) -> Option<String> {
    let since = utc(zone.writing_seconds?);
    Some(format!("a process has been writing its file since {since}; it is loaded when complete"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_a_bound_of_its_bucket_or_a_dash() {
        let of = |counts: &[u64]| StatusHistogram {
            bounds_seconds: vec![0.0001, 1.0],
            counts: counts.into(),
            sum_seconds: 0.0,
        };
        assert_eq!(quantile(&of(&[1, 0, 0]), 0.5), "100 µs");
        assert_eq!(quantile(&of(&[0, 0, 1]), 0.5), ">1 s");
        assert_eq!(quantile(&of(&[0, 0, 0]), 0.5), "-");
        assert_eq!(quantile(&StatusHistogram::default(), 0.5), "-");
    }
}
