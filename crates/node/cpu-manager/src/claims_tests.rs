//! Containers and interrupts beside the model of the kernel.
use super::*;
use crate::groups::{CPUS, QUOTA};
use crate::manager::tests::{GROUPS, Model, list, machine, manager, rules};
use crate::restore::uninstall;
use cpu_topology::{Device, DeviceKind, Interrupt};

fn pods() -> Model {
    let pods = ["kubepods", "kubepods/pod1", "kubepods/pod1/pause", "kubepods/burstable"];
    Model::new("0-7", &[&GROUPS[..], &pods[..]].concat())
}

fn claim(name: &str, cpus: usize) -> Claim {
    let (pod, path) = ("pod1".to_owned(), format!("kubepods/pod1/{name}"));
    let quota = format!("{cpus}00000 100000");
    Claim { pod, name: name.into(), path, cpus, quota, is_running: true, ..Claim::default() }
}

/// Claims CPUs, makes a pass, and creates the group as a runtime does. Returns its CPUs.
fn start(manager: &mut Manager<Model>, id: &str, claim: Claim) -> CpuList {
    let (machine, rules) = (machine("0-7"), rules(&[]));
    let path = claim.path.clone();
    assert_eq!(manager.claim(&machine, &rules, id, claim), []);
    manager.reconcile(&machine, &rules).expect("a pass");
    let cpus = manager.own_cpus(id).expect("CPUs of its own");
    for other in ["user", "kubepods/burstable", "kubepods/pod1/pause", "a.slice"] {
        let shared = manager.groups.effective(other);
        assert!(shared.intersection(&cpus).is_empty(), "{other} has left before {path} is there");
    }
    manager.groups.add(&path);
    for (file, text) in [(CPUS, cpus.to_string().as_str()), (QUOTA, "max 100000")] {
        manager.groups.write(&path, file, text).expect("a group");
    }
    assert_eq!(manager.groups.effective(&path), cpus, "the groups above it allow its CPUs");
    cpus
}

#[test]
fn a_set_stands_before_its_container_and_all_is_put_back() {
    let (mut manager, path) = manager("claims", pods());
    let cpus = start(&mut manager, "id1", claim("app", 2));
    assert_eq!((cpus.len(), cpus.contains(0)), (2, false));
    // Nothing is left to do, and nothing was repaired.
    let events = manager.reconcile(&machine("0-7"), &rules(&[])).expect("a pass");
    assert_eq!((events, manager.summary().repaired, manager.summary().late), (vec![], 0, 0));
    assert!(manager.summary().time_to_exclusive.is_zero(), "its CPUs stood before it was there");
    uninstall(&mut manager.groups, &path).expect("restored");
    assert_eq!(manager.groups.files["kubepods/pod1/app"][QUOTA], "200000 100000");
    assert_eq!(manager.groups.cpus("kubepods/pod1/app"), "0-7");
    assert_eq!(manager.groups.cpus("user"), "0-7");
}

#[test]
fn cpus_of_an_init_container_are_used_again_and_those_of_a_sidecar_are_not() {
    let (mut manager, _path) = manager("init", pods());
    let sidecar = start(&mut manager, "id1", claim("sidecar", 1));
    let init = start(&mut manager, "id2", claim("init", 3));
    manager.stopped("id2");
    manager.groups.files.remove("kubepods/pod1/init");
    // They wait for the pod, and are not shared.
    manager.reconcile(&machine("0-7"), &rules(&[])).expect("a pass");
    assert!(manager.groups.effective("user").intersection(&init).is_empty());
    let one = start(&mut manager, "id3", claim("one", 2));
    assert!(one.is_subset(&init), "{one} of {init}");
    let two = start(&mut manager, "id4", claim("two", 2));
    assert!(two.intersection(&one.union(&sidecar)).is_empty(), "{two}");
    assert_eq!(manager.own_cpus("id1"), Some(sidecar.clone()));
    // The one CPU that was left of the first is not lost.
    assert_eq!(manager.summary().exclusive, sidecar.union(&one).union(&two));
}

#[test]
fn a_container_that_starts_again_has_its_cpus_again_and_a_pod_that_ends_gives_them_back() {
    let (mut manager, _path) = manager("again", pods());
    let other = start(&mut manager, "id0", claim("other", 2));
    let app = start(&mut manager, "id1", claim("app", 2));
    for (id, name) in [("id0", "other"), ("id1", "app")] {
        manager.stopped(id);
        manager.groups.files.remove(&format!("kubepods/pod1/{name}"));
    }
    // The runtime gives it another id, and its group another name.
    let again = Claim { path: "kubepods/pod1/second".into(), ..claim("app", 2) };
    assert_eq!(start(&mut manager, "id2", again), app);
    assert_eq!(manager.own_cpus("id0"), Some(other));
    manager.pod_ended("pod1");
    manager.groups.files.remove("kubepods/pod1/second");
    manager.reconcile(&machine("0-7"), &rules(&[])).expect("a pass");
    assert_eq!(manager.groups.cpus("user"), "0-7");
}

#[test]
fn claims_outlive_the_manager_and_what_the_runtime_lost_is_forgotten() {
    let (mut first, path) = manager("outlive", pods());
    let kept = start(&mut first, "id1", claim("kept", 2));
    start(&mut first, "id2", claim("lost", 2));
    let (mut second, events) = Manager::new(first.groups, &path).expect("a manager");
    assert_eq!(events, []);
    second.keep_only(&BTreeMap::from([("id1".to_owned(), true), ("id3".to_owned(), true)]));
    // It came while no manager ran.
    second.groups.add("kubepods/pod1/late");
    second.claim(&machine("0-7"), &rules(&[]), "id3", claim("late", 1));
    second.reconcile(&machine("0-7"), &rules(&[])).expect("a pass");
    assert_eq!(second.own_cpus("id1"), Some(kept.clone()));
    let late = second.own_cpus("id3").expect("CPUs of its own");
    assert_eq!(second.groups.effective("kubepods/pod1/late"), late);
    assert_eq!((second.summary().late, second.state.claims.contains_key("id2")), (1, false));
    assert!(!second.summary().time_to_exclusive.is_zero(), "it has waited");
    assert_eq!(second.summary().exclusive, kept.union(&late));
}

#[test]
fn a_container_for_which_nothing_is_free_shares_until_something_is() {
    let (mut manager, _path) = manager("full", pods());
    let (machine, rules) = (machine("0-7"), rules(&[]));
    start(&mut manager, "id1", claim("large", 6));
    manager.claim(&machine, &rules, "id2", claim("next", 2));
    let events = manager.reconcile(&machine, &rules).expect("a pass");
    assert!(matches!(&events[..], [Event::Failed(_, why)] if why.contains("request at most 1")));
    assert_eq!(manager.own_cpus("id2"), None);
    manager.groups.add("kubepods/pod1/next");
    manager.removed("id1");
    manager.groups.files.remove("kubepods/pod1/large");
    manager.reconcile(&machine, &rules).expect("a pass");
    assert_eq!(manager.groups.effective("kubepods/pod1/next").len(), 2);
}

/// A machine with interrupts 0 to 4; 3 and 4 are those of `eth0`.
fn with_interrupts(model: &Model) -> Topology {
    let interrupt = |(number, cpus): (&u32, &String)| Interrupt {
        number: *number,
        name: "device".into(),
        allowed: list(cpus),
        effective: list(cpus),
    };
    let device = Device {
        name: "eth0".into(),
        kind: DeviceKind::Network,
        pci: None,
        node: Some(1),
        local: CpuList::default(),
        interrupts: vec![3, 4],
    };
    let interrupts = model.interrupts.iter().map(interrupt).collect();
    Topology { interrupts, devices: vec![device], ..machine("0-7") }
}

#[test]
fn interrupts_leave_exclusive_cpus_and_claimed_ones_come() {
    let mut model = pods();
    let found = [(0, "0-7"), (1, "0-7"), (2, "4"), (3, "0-7"), (4, "0-7")];
    model.interrupts = found.map(|(number, cpus)| (number, cpus.to_owned())).into();
    let before = model.interrupts.clone();
    let (mut manager, path) = manager("interrupts", model);
    let own = "[[group]]\npath = \"init\"\ncpus = 3\nnear = \"eth0\"\ninterrupts = true\n";
    let rules = Rules::parse(&format!("reserved = \"0\"\n{own}")).expect("rules");
    let machine = with_interrupts(&manager.groups);
    let events = manager.reconcile(&machine, &rules).expect("a pass");
    let cpus = manager.groups.effective("init");
    assert_eq!(cpus, list("4-6"), "near eth0");
    let now = |manager: &Manager<Model>, number| list(&manager.groups.interrupts[&number]);
    assert_eq!(now(&manager, 1), list("0-3,7"));
    // Its only CPU is taken: it goes to all that are shared.
    assert_eq!(now(&manager, 2), list("0-3,7"));
    assert_eq!((now(&manager, 3), now(&manager, 4)), (list("4"), list("5")));
    assert!(matches!(&events[..], [Event::Assigned(..), Event::Fixed(0, _)]), "{events:?}");
    // A new one, and one that another program has moved back; what cannot be moved is said once.
    manager.groups.interrupts.insert(5, "0-7".into());
    manager.groups.interrupts.insert(1, "0-7".into());
    let machine = with_interrupts(&manager.groups);
    assert_eq!(manager.reconcile(&machine, &rules).expect("a pass"), []);
    assert_eq!((now(&manager, 5), now(&manager, 1)), (list("0-3,7"), list("0-3,7")));
    manager.groups.interrupts.remove(&5);
    uninstall(&mut manager.groups, &path).expect("restored");
    assert_eq!(manager.groups.interrupts, before);
}

#[test]
fn interrupts_are_put_back_when_no_group_has_cpus_of_its_own() {
    let mut model = pods();
    model.interrupts = [(1, "0-7".to_owned())].into();
    let (mut manager, _path) = manager("interrupts-back", model);
    let machine = |manager: &Manager<Model>| with_interrupts(&manager.groups);
    manager.reconcile(&machine(&manager), &rules(&[("init", 2)])).expect("a pass");
    assert_ne!(manager.groups.interrupts[&1], "0-7");
    manager.reconcile(&machine(&manager), &rules(&[])).expect("a pass");
    assert_eq!(manager.groups.interrupts[&1], "0-7");
    // They stay where they are if the rules say so.
    let keep = Rules::parse("interrupts = \"keep\"\n[[group]]\npath = \"init\"\ncpus = 2\n");
    manager.reconcile(&machine(&manager), &keep.expect("rules")).expect("a pass");
    assert_eq!(manager.groups.interrupts[&1], "0-7");
}
