//! The packed form of the rules of a set.
//!
//! ```text
//! packed   form (1): 0, with 1 for a comment, 2 for a closed set, 4 for what policies need, and 8
//!          for weights that change over time;
//!          choice (1); most members in an answer (2), 0: all; kind of min_up (1), min_up (2);
//!          length of the check (1), check; tiers (2), each (1);
//!          in forms with 4: order (1), weights (2), each (2), locations (2), each behind its
//!          length (1); in forms with 8: members (2), then for each weight that changes the
//!          number of its member (2), the weight at the start (2), the start (8) and the seconds
//!          until the end (4), behind how many there are (2);
//!          in forms with a comment the comment, which is all that follows
//! ```
//! Numbers are little-endian.
use super::{Choice, MinUp, ORDERS, SetRules};
use crate::WeightRamp;
use image::Order;

/// Bits of the form. Versions that do not know one refuse the rules.
const FORM_COMMENT: u8 = 1;
const FORM_CLOSED: u8 = 2;
pub(super) const FORM_POLICY: u8 = 4;
const FORM_RAMPS: u8 = 8;

impl SetRules {
    /// The packed form.
    pub(super) fn pack(&self) -> Vec<u8> {
        let (kind, min_up) = match self.min_up {
            MinUp::Members(number) => (0, number),
            MinUp::Percent(percent) => (1, percent),
        };
        let form = if self.comment.is_empty() { 0 } else { FORM_COMMENT };
        let form = if self.is_closed { form | FORM_CLOSED } else { form };
        let has_policy = self.needs_policy_form();
        let form = if has_policy { form | FORM_POLICY } else { form };
        let form = if self.ramps.is_empty() { form } else { form | FORM_RAMPS };
        let mut packed = vec![form, self.choice as u8];
        packed.extend_from_slice(&self.max.to_le_bytes());
        packed.push(kind);
        packed.extend_from_slice(&min_up.to_le_bytes());
        packed.push(self.check.len() as u8);
        packed.extend_from_slice(self.check.as_bytes());
        packed.extend_from_slice(&(self.tiers.len() as u16).to_le_bytes());
        packed.extend_from_slice(&self.tiers);
        if has_policy {
            packed.push(self.then as u8);
            packed.extend_from_slice(&(self.weights.len() as u16).to_le_bytes());
            packed.extend(self.weights.iter().flat_map(|weight| weight.to_le_bytes()));
            packed.extend_from_slice(&(self.locations.len() as u16).to_le_bytes());
            for path in &self.locations {
                packed.push(path.len() as u8);
                packed.extend_from_slice(path.as_bytes());
            }
        }
        pack_ramps(&mut packed, &self.ramps);
        packed.extend_from_slice(self.comment.as_bytes());
        packed
    }

    /// Reads the packed form; `None`: nothing is packed so.
    pub(super) fn unpack(packed: &[u8]) -> Option<Self> {
        let [form @ 0..=15, choice, m0, m1, kind, u0, u1, len, rest @ ..] = packed else {
            return None;
        };
        let (check, rest) = rest.split_at_checked(usize::from(*len))?;
        let ([t0, t1], rest) = rest.split_first_chunk()?;
        let (tiers, rest) = rest.split_at_checked(u16::from_le_bytes([*t0, *t1]).into())?;
        let choice = *Choice::EACH.get(usize::from(*choice))?;
        let has_policy = form & FORM_POLICY != 0;
        let (policy, rest) = match has_policy {
            true => PackedPolicy::read(rest)?,
            false => (PackedPolicy::default(), rest),
        };
        let (ramps, comment) = match form & FORM_RAMPS {
            0 => (Box::default(), rest),
            _ => read_ramps(rest)?,
        };
        let number = u16::from_le_bytes([*u0, *u1]);
        let min_up = match kind {
            0 => MinUp::Members(number),
            1 => MinUp::Percent(number),
            _ => return None,
        };
        (comment.is_empty() == (form & FORM_COMMENT == 0)).then_some(())?;
        let PackedPolicy { then, weights, locations } = policy;
        let rules = Self {
            choice,
            max: u16::from_le_bytes([*m0, *m1]),
            check: std::str::from_utf8(check).ok()?.into(),
            min_up,
            is_closed: form & FORM_CLOSED != 0,
            tiers: tiers.into(),
            then,
            weights,
            ramps,
            locations,
            comment: std::str::from_utf8(comment).ok()?.into(),
        };
        (rules.needs_policy_form() == has_policy).then_some(rules)
    }
}

/// One place for each member.
type Ramps = Box<[Option<WeightRamp>]>;

/// Appends nothing if no weight changes.
fn pack_ramps(packed: &mut Vec<u8>, ramps: &[Option<WeightRamp>]) {
    if ramps.is_empty() {
        return;
    }
    packed.extend_from_slice(&(ramps.len() as u16).to_le_bytes());
    packed.extend_from_slice(&(ramps.iter().flatten().count() as u16).to_le_bytes());
    for (member, ramp) in (0_u16..).zip(ramps) {
        let Some(ramp) = ramp else { continue };
        packed.extend_from_slice(&member.to_le_bytes());
        packed.extend_from_slice(&ramp.from.unwrap_or_default().to_le_bytes());
        packed.extend_from_slice(&ramp.start().to_le_bytes());
        packed.extend_from_slice(&ramp.over.to_le_bytes());
    }
}

/// Weights that change, and what follows them.
fn read_ramps(packed: &[u8]) -> Option<(Ramps, &[u8])> {
    let ([m0, m1, r0, r1], mut rest) = packed.split_first_chunk()?;
    let mut ramps = vec![None; u16::from_le_bytes([*m0, *m1]).into()];
    for _ in 0..u16::from_le_bytes([*r0, *r1]) {
        let (member, behind) = rest.split_first_chunk()?;
        let (from, behind) = behind.split_first_chunk()?;
        let (start, behind) = behind.split_first_chunk()?;
        let (over, behind) = behind.split_first_chunk()?;
        let (from, start) = (u16::from_le_bytes(*from), u64::from_le_bytes(*start));
        let over = u32::from_le_bytes(*over);
        *ramps.get_mut(usize::from(u16::from_le_bytes(*member)))? =
            Some(WeightRamp { from: Some(from), start: Some(start), over });
        rest = behind;
    }
    ramps.iter().any(Option::is_some).then_some((ramps.into(), rest))
}

/// What only forms with a policy have.
#[derive(Default)]
struct PackedPolicy {
    then: Order,
    weights: Box<[u16]>,
    locations: Box<[Box<str>]>,
}

impl PackedPolicy {
    /// Returns also what follows it.
    fn read(packed: &[u8]) -> Option<(Self, &[u8])> {
        let ([then, w0, w1], rest) = packed.split_first_chunk()?;
        let (then, _) = *ORDERS.get(usize::from(*then))?;
        let weights = 2 * usize::from(u16::from_le_bytes([*w0, *w1]));
        let (weights, rest) = rest.split_at_checked(weights)?;
        let weights = weights.as_chunks::<2>().0.iter().map(|weight| u16::from_le_bytes(*weight));
        let (count, mut rest) = rest.split_first_chunk()?;
        let mut locations = Vec::new();
        for _ in 0..u16::from_le_bytes(*count) {
            let (len, behind) = rest.split_first()?;
            let (path, behind) = behind.split_at_checked(usize::from(*len))?;
            locations.push(std::str::from_utf8(path).ok()?.into());
            rest = behind;
        }
        Some((Self { then, weights: weights.collect(), locations: locations.into() }, rest))
    }
}
