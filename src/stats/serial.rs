//! Statistics for monitoring: serde's `Serialize`, by the feature `serde`. Durations are in
//! seconds.

use super::{Durations, Stats};
use crate::removal::RemovalCause;
use serde::ser::{Serialize, SerializeStruct, Serializer};

impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut stats = serializer.serialize_struct("Stats", 28)?;
        stats.serialize_field("hits", &self.hits)?;
        stats.serialize_field("misses", &self.misses)?;
        stats.serialize_field("insertions", &self.insertions)?;
        stats.serialize_field("expired", &self.removed(RemovalCause::Expired))?;
        stats.serialize_field("explicit", &self.removed(RemovalCause::Explicit))?;
        stats.serialize_field("replaced", &self.removed(RemovalCause::Replaced))?;
        stats.serialize_field("size", &self.removed(RemovalCause::Size))?;
        stats.serialize_field("loads", &self.loads)?;
        stats.serialize_field("loads_under_way", &self.loads_under_way)?;
        stats.serialize_field("load_failures", &self.load_failures)?;
        stats.serialize_field("load_times", self.load_times())?;
        stats.serialize_field("listener_panics", &self.listener_panics)?;
        stats.serialize_field("drop_panics", &self.drop_panics)?;
        stats.serialize_field("entries", &self.entries)?;
        stats.serialize_field("weight", &self.weight)?;
        stats.serialize_field("pending_notifications", &self.pending_notifications)?;
        stats.serialize_field("pending_drops", &self.pending_drops)?;
        stats.serialize_field("discarded_notifications", &self.discarded_notifications)?;
        stats.serialize_field("refused_after_close", &self.refused_after_close)?;
        stats.serialize_field("reloads", &self.reloads)?;
        stats.serialize_field("reload_failures", &self.reload_failures)?;
        stats.serialize_field("reloads_skipped", &self.reloads_skipped)?;
        stats.serialize_field("reloads_under_way", &self.reloads_under_way)?;
        stats.serialize_field("evicted_weight", &self.evicted_weight)?;
        stats.serialize_field("pending_drop_weight", &self.pending_drop_weight)?;
        stats.serialize_field("own_bytes", &self.own_bytes)?;
        stats.serialize_field("hit_ratio", &self.hit_ratio())?;
        stats.serialize_field("expiry_lateness", self.expiry_lateness())?;
        stats.end()
    }
}

impl Serialize for Durations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut durations = serializer.serialize_struct("Durations", 5)?;
        durations.serialize_field("count", &self.count())?;
        durations.serialize_field("sum", &self.sum().as_secs_f64())?;
        durations.serialize_field("p50", &self.quantile(0.5).as_secs_f64())?;
        durations.serialize_field("p99", &self.quantile(0.99).as_secs_f64())?;
        durations.serialize_field("max", &self.max().as_secs_f64())?;
        durations.end()
    }
}

#[cfg(all(test, not(cortado_loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_number_has_its_name() {
        let stats = Stats::numbered();
        let json = serde_json::to_value(&stats).unwrap();
        let mut fields = json.as_object().unwrap().clone();
        for nested in ["load_times", "expiry_lateness"] {
            assert_eq!(fields.remove(nested).unwrap()["count"], 0);
        }
        assert_eq!(fields.remove("hit_ratio").unwrap(), stats.hit_ratio());
        for cause in RemovalCause::ALL {
            assert_eq!(fields.remove(cause.name()).unwrap(), stats.removed(cause));
        }
        let debug = format!("{stats:?}");
        for (name, number) in &fields {
            assert!(debug.contains(&format!(" {name}: {number},")), "{name} in {debug}");
        }
        let numbers: BTreeSet<u64> = fields.values().map(|it| it.as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=21).collect(), "all but the four of removals");
    }
}
