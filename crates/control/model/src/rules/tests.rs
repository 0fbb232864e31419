use super::packed::FORM_POLICY;
use super::*;
use crate::SetValue;

fn rules() -> SetRules {
    SetRules {
        choice: Choice::Failover,
        max: 3,
        check: "web".into(),
        min_up: MinUp::Percent(50),
        is_closed: false,
        tiers: [0, 1].into(),
        ..SetRules::default()
    }
}

fn with_policy() -> SetRules {
    SetRules {
        choice: Choice::Nearest,
        then: Order::Weighted,
        weights: [0, 9].into(),
        locations: ["eu/fra1".into(), "".into()].into(),
        min_up: MinUp::default(),
        ..rules()
    }
}

#[test]
fn weights_and_locations_are_packed_in_a_form_that_older_versions_refuse() {
    for comment in ["", "rack 7"] {
        let rules = SetRules { comment: comment.into(), ..with_policy() };
        let packed = Policy::new(rules.clone()).pack();
        assert!(packed[0] >= 4);
        assert_eq!(Policy::unpack(&packed), Some(Policy::new(rules)));
        // A comment is all that follows: one that is cut is shorter.
        for len in 1..packed.len() - comment.len() {
            assert_eq!(Policy::unpack(&packed[..len]), None, "{len}");
        }
    }
    for choice in [Choice::One, Choice::Weighted, Choice::Hash] {
        let policy = Policy::new(SetRules { choice, ..SetRules::default() });
        assert_eq!(Policy::unpack(&policy.pack()), Some(policy));
    }
    // The form without anything that needs it.
    let mut packed = Policy::new(rules()).pack();
    packed[0] |= FORM_POLICY;
    assert_eq!(Policy::unpack(&[packed, vec![0; 5]].concat()), None);
}

#[test]
fn members_are_read_as_they_were_set() {
    let member = |tier, weight, location: &str| MemberRules {
        tier,
        weight,
        ramp: None,
        location: location.into(),
    };
    let mut rules = SetRules::default();
    let members = [member(0, 5, ""), member(1, WEIGHT_DEFAULT, "eu")];
    rules.set_members(&members);
    assert_eq!([rules.member(0), rules.member(1)], members);
    rules.set_members(&[MemberRules::default(), MemberRules::default()]);
    assert_eq!(rules, SetRules::default());
}

#[test]
fn packed_rules_are_read_back_and_cut_ones_are_refused() {
    let packed = Policy::new(rules()).pack();
    assert_eq!(Policy::unpack(&packed), Some(Policy::new(rules())));
    for len in 1..packed.len() {
        assert_eq!(Policy::unpack(&packed[..len]), None, "{len}");
    }
    assert_eq!(Policy::unpack(&[packed, vec![0]].concat()), None);
    assert_eq!(Policy::new(SetRules::default()), Policy::All);
    assert!(Policy::All.pack().is_empty());
}

#[test]
fn comment_is_packed_behind_the_rules_and_costs_nothing_without_one() {
    let plain = Policy::new(rules()).pack();
    let commented = Policy::new(rules()).with_comment("Rack 7, für Ümit");
    let packed = commented.pack();
    assert_eq!(packed.len(), plain.len() + commented.comment().len());
    assert_eq!((plain[0], packed[0]), (0, 1), "older versions refuse the form");
    assert_eq!(Policy::unpack(&packed), Some(commented.clone()));
    assert_eq!(commented.with_comment("").pack(), plain);
    let alone = Policy::All.with_comment("x");
    assert_eq!(Policy::unpack(&alone.pack()), Some(alone.clone()));
    assert_eq!(alone.with_comment(""), Policy::All);
    // Form 1 without a comment, and a comment that is no UTF-8.
    assert_eq!(Policy::unpack(&[&[1], &plain[1..]].concat()), None);
    assert_eq!(Policy::unpack(&[&[1], &plain[1..], &[0xff]].concat()), None);
}

#[test]
fn closed_set_is_packed_in_a_form_that_older_versions_refuse() {
    for comment in ["", "rack 7"] {
        let rules = SetRules { is_closed: true, comment: comment.into(), ..rules() };
        let packed = Policy::new(rules.clone()).pack();
        assert!(packed[0] >= 2);
        assert_eq!(Policy::unpack(&packed), Some(Policy::new(rules)));
    }
    let head = image::Selection::pack_head(Order::Random, (1, 1), 0, false);
    assert_eq!(Policy::unpack(&head), None);
}

#[test]
fn all_sets_can_have_comments_within_the_bounds() {
    let check = |comment: &str, rtype| {
        let rules = SetRules { comment: comment.into(), ..SetRules::default() };
        rules.check(rtype, 1).map_err(|why| why.0)
    };
    assert_eq!(check("a note", Rtype::MX), Ok(()));
    assert_eq!(check(&"é".repeat(127), Rtype::A), Ok(()));
    assert_eq!(check(&"é".repeat(128), Rtype::A), Err("comment"), "256 bytes");
    for control in ["a\nb", "\0", "\u{7f}", "\u{85}", "a\u{202e}b", "\u{2028}", "\u{2069}"] {
        assert_eq!(check(control, Rtype::A), Err("comment"), "{control:?}");
    }
}

#[test]
fn rules_that_a_set_cannot_have_are_refused_with_their_field() {
    let field = |rules: &SetRules, rtype| rules.check(rtype, 2).err().map(|why| why.0);
    assert_eq!(field(&rules(), Rtype::A), None);
    assert_eq!(field(&rules(), Rtype::MX), Some("policy"));
    assert_eq!(field(&SetRules { check: "a b".into(), ..rules() }, Rtype::A), Some("check"));
    assert_eq!(field(&SetRules { tiers: [1].into(), ..rules() }, Rtype::A), Some("members"));
    let zero = SetRules { min_up: MinUp::Members(0), ..rules() };
    assert_eq!(field(&zero, Rtype::AAAA), Some("min_up"));
    for rtype in [Rtype::A, Rtype::AAAA, Rtype::SRV, Rtype::HTTPS, Rtype::PTR] {
        let check = if rtype.fixed_rdata_len().is_some() { None } else { Some("check") };
        assert_eq!(field(&with_policy(), rtype), check);
        assert_eq!(field(&SetRules { check: "".into(), ..with_policy() }, rtype), None);
    }
    for rtype in [Rtype::TXT, Rtype::CNAME, Rtype::NS, Rtype::SVCB] {
        assert_eq!(field(&with_policy(), rtype), Some("policy"));
    }
    let half = SetRules { min_up: MinUp::Percent(50), ..with_policy() };
    assert_eq!(field(&half, Rtype::A), Some("min_up"));
    let ordered = SetRules { choice: Choice::Hash, ..with_policy() };
    assert_eq!(field(&ordered, Rtype::A), Some("then"));
    let outside = SetRules { locations: ["a//b".into(), "".into()].into(), ..with_policy() };
    assert_eq!(field(&outside, Rtype::A), Some("members"));
    let short = SetRules { weights: [1].into(), ..with_policy() };
    assert_eq!(field(&short, Rtype::A), Some("members"));
    let many = SetRules { choice: Choice::Hash, ..SetRules::default() };
    assert_eq!(many.check(Rtype::A, ORDERED_MAX).err(), None);
    assert_eq!(many.check(Rtype::A, ORDERED_MAX + 1).err().map(|why| why.0), Some("members"));
}

#[test]
fn share_of_members_is_rounded_up_and_is_never_none() {
    let of = |min_up: MinUp, members| min_up.of(members);
    assert_eq!(of(MinUp::Percent(50), 5), 3);
    assert_eq!(of(MinUp::Percent(1), 5), 1);
    assert_eq!(of(MinUp::Members(9), 5), 5);
}

#[test]
fn ramp_starts_at_the_weight_that_the_member_has() {
    let ramp = |from, start, over| WeightRamp { from: Some(from), start: Some(start), over };
    let set = |ramps: &[Option<WeightRamp>], weights: &[u16]| {
        let (ramps, weights) = (ramps.into(), weights.into());
        let choice = Choice::Weighted;
        let rules = SetRules { choice, ramps, weights, ..SetRules::default() };
        let data = [[10, 0, 0, 1], [10, 0, 0, 2]].map(|data| Box::from(&data[..]));
        SetValue { ttl: 5, policy: Policy::new(rules), data: data.into() }
    };
    let held = set(&[Some(ramp(0, 1_000, 600)), None], &[100, 9]);
    let unset = WeightRamp { from: None, start: None, over: 60 };
    let mut new = set(&[Some(unset), Some(unset)], &[0, 0]);
    new.start_ramps(Some(&held), 1_300);
    let started = |value: &SetValue| [0, 1].map(|at| value.policy.member(at).ramp);
    assert_eq!(started(&new), [Some(ramp(50, 1_300, 60)), Some(ramp(9, 1_300, 60))]);
    let before = new.clone();
    new.start_ramps(Some(&held), 2_000);
    assert_eq!(new, before, "what is stored stays");
    let mut fresh = set(&[Some(unset), None], &[7, 7]);
    fresh.start_ramps(None, 5);
    assert_eq!(started(&fresh), [Some(ramp(0, 5, 60)), None]);
}
