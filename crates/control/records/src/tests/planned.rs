//! Writes whose edits are made from the zone when their turn comes.
use super::*;
use crate::PlannedWrite;
use wire::Rcode;

/// Adds an address to a set as a client would that reads the set first.
#[derive(Debug)]
struct AddAddress(u8);

impl PlannedWrite for AddAddress {
    fn edits(&self, zone: &Zone) -> Result<Vec<Edit>, Refused> {
        let name = name("many.example.org.");
        let held = zone.set(name.as_name(), Rtype::A).map(SetValue::from);
        let mut value = held.unwrap_or_else(|| SetValue::new(60, Vec::new()));
        if value.data.len() == 70 {
            return Err(Refused::Unmet { rcode: Rcode::YxRrset, what: "there are enough".into() });
        }
        value.data.push([10, 0, 0, self.0].into());
        Ok(vec![Edit::put(name, Rtype::A, value)])
    }

    fn weight(&self) -> usize {
        64
    }
}

#[test]
fn planned_writes_of_one_set_lose_none_and_a_plan_can_refuse() {
    let scene = with_zone();
    let write = |host| {
        let by = WriteContext::by("test");
        scene.service.write_planned(name("example.org."), Arc::new(AddAddress(host)), by)
    };
    // All are queued before the first is answered.
    let answers: Vec<_> = (0..70).map(write).collect();
    for answer in answers {
        let written = answer.wait().expect("written");
        scene.publisher.wait(written.sequence);
    }
    let image = scene.publisher.image();
    let zone = image.zone(name("example.org.").as_name()).expect("a zone");
    let set = zone.set(name("many.example.org.").as_name(), Rtype::A).expect("a set");
    assert_eq!(set.count(), 70);
    let refused = write(71).wait().expect_err("refused");
    assert_eq!(refused.to_string(), "there are enough (YXRRSET)");
    let to = |zone: &str| {
        let by = WriteContext::by("test");
        scene.service.write_planned(name(zone), Arc::new(AddAddress(0)), by).wait()
    };
    assert_eq!(to("absent.example."), Err(Refused::NoSuchZone));
}
