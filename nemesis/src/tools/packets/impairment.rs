//! What is done to the packets on their way from this node to one other.

use fencepost_history::Refusal;
use serde::{Deserialize, Serialize, Serializer};

/// How a link is made worse. All fields but the last two mean what they mean to `tc netem`.
///
/// ```
/// use fencepost_nemesis::tools::packets::Impairment;
/// let far_and_lossy = Impairment { delay_ms: 100.0, jitter_ms: 10.0, loss: 0.02, ..Impairment::default() };
/// assert!(far_and_lossy.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Impairment {
    /// Mean time that a packet is held, in milliseconds.
    #[serde(skip_serializing_if = "is_default", serialize_with = "whole_where_it_is")]
    pub delay_ms: f64,
    /// Spread of the delay in ms: half the uniform's width, σ of the others. Packets may overtake each other.
    #[serde(skip_serializing_if = "is_default", serialize_with = "whole_where_it_is")]
    pub jitter_ms: f64,
    #[serde(skip_serializing_if = "is_default")]
    pub distribution: Distribution,
    /// Share of packets that are lost, 0 to 1.
    #[serde(skip_serializing_if = "is_default")]
    pub loss: f64,
    /// Correlation of each loss with the loss of the packet before, 0 to below 1: losses come in bursts of
    /// 1 / ((1 − loss) (1 − correlation)) packets in the mean, and their share stays the same.
    #[serde(skip_serializing_if = "is_default")]
    pub loss_correlation: f64,
    /// Share of packets that arrive twice, 0 to 1.
    #[serde(skip_serializing_if = "is_default")]
    pub duplicate: f64,
    /// Share of packets that skip the delay, and so overtake those before them, 0 to 1.
    #[serde(skip_serializing_if = "is_default")]
    pub reorder: f64,
    /// Bandwidth in kilobits a second, counting Ethernet's 14 bytes a packet; 0 is unlimited.
    #[serde(skip_serializing_if = "is_default")]
    pub rate_kbit: u64,
    /// Share of TCP's packets with data that arrive as a reset of their connection, 0 to 1 (emulator only).
    #[serde(skip_serializing_if = "is_default")]
    pub reset: f64,
    /// So many packets with data of each connection pass before others are impaired (emulator only).
    #[serde(skip_serializing_if = "is_default")]
    pub pass_first: u64,
    /// A TCP connection silent for so many ms is forgotten; new ones work; 0 forgets none (emulator only).
    #[serde(skip_serializing_if = "is_default")]
    pub idle_ms: u64,
}

/// How a delay spreads around its mean. The shapes are netem's own, also in that none reaches beyond four σ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    #[default]
    Uniform,
    Normal,
    Pareto,
}

/// The longest delay that is taken: netem and the emulator both hold every packet for so long.
const LONGEST_MS: f64 = 600_000.0;

impl Impairment {
    /// Whether this field, by its name in files, is not 0.
    pub(crate) fn has(&self, field: &str) -> bool {
        serde_json::to_value(self).is_ok_and(|fields| fields.get(field).is_some())
    }

    /// Refuses what makes no sense, in one sentence.
    pub fn check(&self) -> Result<(), Refusal> {
        let shares = [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("reset", self.reset),
        ];
        if let Some((name, share)) = shares.iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            return Err(Refusal::at(name, format!("{name} is a share between 0 and 1, not {share}")));
        }
        if !(0.0..1.0).contains(&self.loss_correlation) {
            let sentence = format!(
                "loss_correlation is at least 0 and below 1, not {}: at 1 the first packet would decide for all",
                self.loss_correlation
            );
            return Err(Refusal::at("loss_correlation", sentence));
        }
        let times = [("delay_ms", self.delay_ms), ("jitter_ms", self.jitter_ms)];
        if let Some((name, time)) = times.iter().find(|(_, time)| !(0.0..=LONGEST_MS).contains(time)) {
            return Err(Refusal::at(name, format!("{name} is between 0 and {LONGEST_MS} ms, not {time}")));
        }
        if self.idle_ms as f64 > LONGEST_MS {
            let sentence = format!("idle_ms is at most {LONGEST_MS} ms, not {}", self.idle_ms);
            return Err(Refusal::at("idle_ms", sentence));
        }
        if self.reorder > 0.0 && self.delay_ms == 0.0 {
            return Err(Refusal::at(
                "reorder",
                "reorder needs a delay_ms: packets overtake by skipping the delay",
            ));
        }
        if self.jitter_ms > 0.0 && self.delay_ms == 0.0 {
            return Err(Refusal::at("jitter_ms", "jitter_ms needs a delay_ms around which it spreads"));
        }
        if (Impairment { pass_first: 0, ..*self }) == Impairment::default() {
            let sentence = "no impairment given: expected delay_ms, loss, reorder, duplicate, rate_kbit, reset or idle_ms";
            return Err(Refusal::new(sentence));
        }
        Ok(())
    }

    /// Both at once, as two links in a row: delays add up, losses are independent; the lower rate, the
    /// shorter `idle_ms`, the greater `pass_first`, the wider jitter, the greater correlation count.
    #[must_use]
    pub fn and(self, other: Impairment) -> Impairment {
        let either = |one: f64, two: f64| 1.0 - (1.0 - one) * (1.0 - two);
        let (wider, lossier) = (
            if self.jitter_ms >= other.jitter_ms { self } else { other },
            if self.loss >= other.loss { self } else { other },
        );
        let lower = |one: u64, two: u64| if one == 0 || two == 0 { one.max(two) } else { one.min(two) };
        Impairment {
            delay_ms: self.delay_ms + other.delay_ms,
            jitter_ms: self.jitter_ms.hypot(other.jitter_ms),
            distribution: wider.distribution,
            loss: either(self.loss, other.loss),
            loss_correlation: lossier.loss_correlation,
            duplicate: either(self.duplicate, other.duplicate),
            reorder: either(self.reorder, other.reorder),
            rate_kbit: lower(self.rate_kbit, other.rate_kbit),
            reset: either(self.reset, other.reset),
            pass_first: self.pass_first.max(other.pass_first),
            idle_ms: lower(self.idle_ms, other.idle_ms),
        }
    }

    pub(super) fn needs_emulator(&self) -> bool {
        self.reset > 0.0 || self.pass_first > 0 || self.idle_ms > 0
    }

    /// Chance of a loss after a loss or none (Gilbert's model), with exactly `loss` and `loss_correlation`.
    pub(super) fn loss_after(&self, lost_before: bool) -> f64 {
        let pull = if lost_before { self.loss_correlation } else { 0.0 };
        self.loss * (1.0 - self.loss_correlation) + pull
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
/// Whole milliseconds as a whole number, as a plan writes and reads them.
fn whole_where_it_is<S: Serializer>(ms: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if ms.fract() == 0.0 && ms.abs() <= LONGEST_MS {
        serializer.serialize_i64(*ms as i64)
    } else {
        serializer.serialize_f64(*ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        let refused =
            |json: &str| serde_json::from_str::<Impairment>(json).unwrap().check().unwrap_err().sentence;
        assert_eq!(refused(r#"{"loss":1.5}"#), "loss is a share between 0 and 1, not 1.5");
        assert_eq!(refused(r#"{"delay_ms":-1}"#), "delay_ms is between 0 and 600000 ms, not -1");
        assert!(refused(r#"{"reorder":0.5}"#).starts_with("reorder needs a delay_ms"));
        assert!(refused(r#"{"jitter_ms":5}"#).starts_with("jitter_ms needs a delay_ms"));
        assert!(
            refused(r#"{"loss":0.1,"loss_correlation":1}"#).starts_with("loss_correlation is at least 0")
        );
        assert!(refused("{}").starts_with("no impairment given"));
        assert!(serde_json::from_str::<Impairment>(r#"{"delay":1}"#).is_err(), "an unknown field");
    }

    #[test]
    fn two_impairments_add_up() {
        let slow = Impairment { delay_ms: 100.0, jitter_ms: 3.0, rate_kbit: 64, ..Impairment::default() };
        let lossy = Impairment {
            delay_ms: 10.0,
            jitter_ms: 4.0,
            distribution: Distribution::Pareto,
            loss: 0.5,
            loss_correlation: 0.2,
            ..Impairment::default()
        };
        let both = slow.and(lossy).and(Impairment { loss: 0.5, rate_kbit: 32, ..Impairment::default() });
        assert_eq!((both.delay_ms, both.jitter_ms, both.loss, both.rate_kbit), (110.0, 5.0, 0.75, 32));
        assert_eq!((both.distribution, both.loss_correlation), (Distribution::Pareto, 0.2));
        assert_eq!(slow.and(Impairment::default()), slow);
    }

    #[test]
    fn only_what_is_asked_for_is_written() {
        let text = serde_json::to_string(&Impairment { loss: 0.25, ..Impairment::default() }).unwrap();
        assert_eq!(text, r#"{"loss":0.25}"#);
    }
}
