//! The manager beside a model of the kernel's control groups.
use super::*;
use crate::groups::{EXCLUSIVE, PARTITION};
use crate::restore::uninstall;
use cpu_topology::{CoreKind, Cpu};
use std::ops::Deref;
use std::{fs, io};
use test_support::folder::Folder;

/// Control groups as the kernel keeps them: a group's set counts as far as its parent's does.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) files: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) online: CpuList,
    is_read_only: bool,
    /// How often it still refuses a partition.
    refusals: u32,
    pub(crate) interrupts: BTreeMap<u32, String>,
}

impl Model {
    pub(crate) fn new(online: &str, groups: &[&str]) -> Self {
        let mut model = Self { online: list(online), ..Self::default() };
        for group in [""].iter().chain(groups) {
            model.add(group);
        }
        model
    }

    pub(crate) fn add(&mut self, group: &str) {
        let files = [(CPUS, ""), (CONTROL, ""), (QUOTA, "50000 100000"), ("cgroup.procs", "")];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        self.files.insert(group.to_owned(), files.into());
    }

    fn has_sets(&self, group: &str) -> bool {
        let parent = group.rsplit_once('/').map_or("", |(parent, _)| parent);
        !group.is_empty() && self.files.get(parent).is_some_and(|files| files[CONTROL] == "cpuset")
    }

    pub(crate) fn effective(&self, group: &str) -> CpuList {
        if group.is_empty() {
            return self.online.clone();
        }
        let above = self.effective(group.rsplit_once('/').map_or("", |(parent, _)| parent));
        let own = self.has_sets(group).then(|| list(&self.files[group][CPUS]));
        own.map(|own| own.intersection(&above)).filter(|own| !own.is_empty()).unwrap_or(above)
    }

    pub(crate) fn cpus(&self, group: &str) -> String {
        self.effective(group).to_string()
    }
}

impl Groups for Model {
    fn children(&self, group: &str) -> io::Result<Vec<String>> {
        let prefix = if group.is_empty() { String::new() } else { format!("{group}/") };
        let below = self.files.keys().filter_map(|path| path.strip_prefix(&prefix));
        Ok(below.filter(|n| !n.is_empty() && !n.contains('/')).map(str::to_owned).collect())
    }

    fn read(&self, group: &str, file: &str) -> io::Result<String> {
        let is_set = file.starts_with("cpuset") && !(group.is_empty() && file == EFFECTIVE);
        let there = self.files.get(group).filter(|_| !is_set || self.has_sets(group));
        let text = match file {
            EFFECTIVE if there.is_some() => Some(self.cpus(group)),
            _ => there.and_then(|files| files.get(file).cloned()),
        };
        text.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&mut self, group: &str, file: &str, text: &str) -> io::Result<()> {
        if self.is_read_only {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let found = self.read(group, file)?;
        if file == CPUS && text.is_empty() && !found.is_empty() {
            // ENOSPC: as for a group with processes.
            return Err(io::Error::from_raw_os_error(28));
        }
        if file == PARTITION && text == "root" && self.refusals > 0 {
            self.refusals -= 1;
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if text == "-cpuset" {
            for child in self.children(group)? {
                let files = self.files.get_mut(&join(group, &child)).expect("a group");
                files.insert(CPUS.into(), String::new());
            }
        }
        let text = match text {
            "+cpuset" => "cpuset",
            "-cpuset" => "",
            "max" => "max 100000",
            text => text,
        };
        self.files.entry(group.into()).or_default().insert(file.into(), text.into());
        Ok(())
    }

    fn set_interrupt(&mut self, number: u32, cpus: &str) -> io::Result<()> {
        match self.interrupts.get_mut(&number) {
            // One of each machine's that its driver keeps where it is.
            Some(_) if number == 0 => Err(io::ErrorKind::PermissionDenied.into()),
            Some(set) => {
                *set = cpus.to_owned();
                Ok(())
            }
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

pub(crate) fn list(text: &str) -> CpuList {
    CpuList::from_kernel(text).expect("a list")
}

pub(crate) fn machine(online: &str) -> Topology {
    let cpu = |id| {
        let (node, kind) = (id / 4, CoreKind::Standard);
        Cpu { id, core: id, l2: None, l3: Some(node), die: 0, node, socket: 0, kind }
    };
    Topology { cpus: list(online).iter().map(cpu).collect(), ..Topology::default() }
}

pub(crate) fn rules(groups: &[(&str, usize)]) -> Rules {
    let mut text = "reserved = \"0\"\n".to_owned();
    for (path, cpus) in groups {
        text += &format!("[[group]]\npath = \"{path}\"\ncpus = {cpus}\n");
    }
    Rules::parse(&text).expect("rules")
}

pub(crate) const GROUPS: [&str; 6] =
    ["a.slice", "a.slice/db", "a.slice/web", "init", "user", "user/one"];

/// The state file of a manager, in a folder of its own.
pub(crate) struct StateFile {
    path: PathBuf,
    _folder: Folder,
}

impl Deref for StateFile {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

/// A manager of the model, and its state file.
pub(crate) fn manager(test: &str, model: Model) -> (Manager<Model>, StateFile) {
    let folder = Folder::new(test);
    let path = folder.join("state");
    let (manager, events) = Manager::new(model, &path).expect("a manager");
    assert_eq!(events, []);
    (manager, StateFile { path, _folder: folder })
}

/// As while a runtime fills the group.
#[test]
fn a_partition_that_the_kernel_refuses_is_asked_for_again() {
    let mut model = Model::new("0-7", &GROUPS);
    for group in ["a.slice", "a.slice/db"] {
        for (file, text) in [(EXCLUSIVE, ""), (PARTITION, "member")] {
            model.files.get_mut(group).expect("a group").insert(file.into(), text.into());
        }
    }
    model.refusals = 2;
    let (mut manager, path) = manager("refused", model);
    let rules = rules(&[("a.slice/db", 2)]);
    for partitions in [0, 0, 1, 1] {
        manager.reconcile(&machine("0-7"), &rules).expect("a pass");
        assert_eq!(manager.summary().partitions, partitions);
    }
    assert_eq!(manager.groups.files["a.slice/db"][PARTITION], "root");
    // One that never works is not asked for at each pass.
    uninstall(&mut manager.groups, &path).expect("restored");
    manager.groups.refusals = 1_000;
    let (mut second, _) = Manager::new(manager.groups, &path).expect("a manager");
    for _ in 0..100 {
        second.reconcile(&machine("0-7"), &rules).expect("a pass");
    }
    assert_eq!((second.groups.refusals, second.summary().partitions), (980, 0));
}

#[test]
fn a_group_has_its_cpus_alone_and_everything_is_put_back() {
    let model = Model::new("0-7", &GROUPS);
    let before = model.files.clone();
    let (mut manager, path) = manager("alone", model);
    let rules = rules(&[("a.slice/db", 2), ("init", 1)]);
    let events = manager.reconcile(&machine("0-7"), &rules).expect("a pass");
    assert_eq!(events.len(), 2, "{events:?}");
    let db = manager.groups.effective("a.slice/db");
    let init = manager.groups.effective("init");
    assert_eq!((db.len(), init.len()), (2, 1));
    assert!(db.intersection(&init).is_empty() && !db.union(&init).contains(0));
    for other in ["a.slice/web", "user", "user/one"] {
        let cpus = manager.groups.effective(other);
        assert!(cpus.intersection(&db.union(&init)).is_empty(), "{other}: {cpus}");
    }
    assert_eq!(manager.groups.files["a.slice/db"][QUOTA], "max 100000");
    assert_eq!(manager.groups.files["user"][QUOTA], "50000 100000");
    assert_eq!(manager.summary().exclusive, db.union(&init));
    // Nothing is left to do.
    assert_eq!(manager.reconcile(&machine("0-7"), &rules).expect("a pass"), []);
    let restored = uninstall(&mut manager.groups, &path).expect("restored");
    assert!(restored >= 4 && !path.exists());
    assert_eq!(manager.groups.files, before);
    assert_eq!(uninstall(&mut manager.groups, &path), Ok(0));
}

#[test]
fn sets_of_others_are_put_back_where_the_controller_was_on() {
    let mut model = Model::new("0-7", &GROUPS);
    model.write("", CONTROL, "+cpuset").expect("written");
    model.write("user", CPUS, "1-6").expect("written");
    let cpus = |model: &Model| GROUPS.map(|group| model.cpus(group));
    let before = cpus(&model);
    let (mut manager, path) = manager("on", model);
    manager.reconcile(&machine("0-7"), &rules(&[("a.slice/db", 2)])).expect("a pass");
    assert_ne!(cpus(&manager.groups), before);
    uninstall(&mut manager.groups, &path).expect("restored");
    assert_eq!(cpus(&manager.groups), before);
    assert_eq!(manager.groups.files["user"][CPUS], "1-6");
    assert_eq!(manager.groups.files[""][CONTROL], "cpuset");
    assert_eq!(manager.groups.files["a.slice"][CONTROL], "");
}

#[test]
fn policy_none_puts_everything_back() {
    let model = Model::new("0-7", &GROUPS);
    let before = model.files.clone();
    let (mut manager, path) = manager("none", model);
    manager.reconcile(&machine("0-7"), &rules(&[("init", 2)])).expect("a pass");
    assert_ne!(manager.groups.files, before);
    let none = Rules { policy: Policy::None, ..Rules::default() };
    let events = manager.reconcile(&machine("0-7"), &none).expect("a pass");
    assert_eq!(events, [Event::Restored]);
    assert_eq!(manager.groups.files, before);
    assert!(!path.exists());
}

#[test]
fn drift_and_new_groups_are_repaired() {
    let (mut manager, _path) = manager("drift", Model::new("0-7", &GROUPS));
    let rules = rules(&[("init", 2)]);
    manager.reconcile(&machine("0-7"), &rules).expect("a pass");
    let own = manager.groups.cpus("init");
    manager.groups.write("user", CPUS, "0-7").expect("written");
    manager.groups.write("init", CPUS, "0").expect("written");
    manager.groups.add("fresh");
    let events = manager.reconcile(&machine("0-7"), &rules).expect("a pass");
    assert!(
        events.contains(&Event::Repaired("init".into(), "0".into(), own.clone())),
        "{events:?}"
    );
    assert_eq!((events.len(), manager.summary().repaired), (2, 2), "{events:?}");
    assert_eq!(manager.groups.cpus("init"), own);
    for other in ["user", "fresh"] {
        let cpus = manager.groups.effective(other);
        assert!(cpus.intersection(&list(&own)).is_empty(), "{other}: {cpus}");
    }
}

#[test]
fn a_killed_manager_goes_on_where_it_was_whatever_became_of_its_state() {
    let damages: [fn(&Path); 4] = [
        |_| {},
        |path| fs::write(path, &fs::read(path).expect("read")[..40]).expect("cut off"),
        |path| fs::remove_file(path).expect("removed"),
        |path| {
            let text =
                fs::read_to_string(path).expect("read").replacen(", form 3,", ", form 9,", 1);
            fs::write(path, text).expect("written");
        },
    ];
    for (index, damage) in damages.into_iter().enumerate() {
        let (mut first, path) = manager(&format!("killed-{index}"), Model::new("0-7", &GROUPS));
        let rules = rules(&[("a.slice/db", 3), ("init", 1)]);
        first.reconcile(&machine("0-7"), &rules).expect("a pass");
        let sets = ["a.slice/db", "init", "user"].map(|group| first.groups.cpus(group));
        damage(&path);
        let (mut second, events) = Manager::new(first.groups, &path).expect("a manager");
        // A state that is not there is no fault, and one that is damaged is kept.
        assert_eq!(events.len(), usize::from(index == 1 || index == 3), "{index}: {events:?}");
        let kept = fs::read_dir(path.parent().expect("a folder")).expect("a folder").count();
        assert_eq!(kept, usize::from(index != 2), "{index}");
        second.reconcile(&machine("0-7"), &rules).expect("a pass");
        if index != 2 {
            let now = ["a.slice/db", "init", "user"].map(|group| second.groups.cpus(group));
            assert_eq!(now, sets, "{index}");
        }
        assert_eq!(second.groups.effective("a.slice/db").len(), 3, "{index}");
    }
}

#[test]
fn lost_and_new_cpus_are_followed() {
    let (mut manager, _path) = manager("lost", Model::new("0-7", &GROUPS));
    let rules = rules(&[("init", 2)]);
    manager.reconcile(&machine("0-7"), &rules).expect("a pass");
    let own = manager.groups.effective("init");
    let lost = own.iter().next().expect("a CPU");
    let left = list("0-7").difference(&CpuList::from_iter([lost]));
    manager.groups.online = left.clone();
    let events = manager.reconcile(&machine(&left.to_string()), &rules).expect("a pass");
    let [Event::Lost(loser, gone_cpus), Event::Assigned(group, ..)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((loser.as_str(), gone_cpus), ("init", &CpuList::from_iter([lost])));
    assert_eq!(group, "init");
    let again = manager.reconcile(&machine(&left.to_string()), &rules).expect("a pass");
    assert_eq!(again, [], "a loss is an event once");
    let now = manager.groups.effective("init");
    assert!(now.len() == 2 && !now.contains(lost) && !now.contains(0), "{now}");
    // It comes back, and one more with it: they are shared.
    manager.groups.online = list("0-8");
    manager.reconcile(&machine("0-8"), &rules).expect("a pass");
    assert_eq!(manager.groups.effective("init"), now);
    assert_eq!(manager.groups.effective("user"), list("0-8").difference(&now));
}

#[test]
fn a_request_that_cannot_be_met_takes_nothing_from_others() {
    let (mut manager, _path) = manager("unmet", Model::new("0-3", &GROUPS));
    manager.reconcile(&machine("0-3"), &rules(&[("init", 2)])).expect("a pass");
    let own = manager.groups.cpus("init");
    let both = rules(&[("init", 2), ("user", 2)]);
    let events = manager.reconcile(&machine("0-3"), &both).expect("a pass");
    let told = events.iter().map(Event::to_string).collect::<String>();
    assert!(told.contains("user: 2 CPUs are requested and 1 are free"), "{told}");
    assert!(told.contains("it shares"), "{told}");
    assert_eq!(manager.groups.cpus("init"), own);
    // A larger request that cannot be met keeps what it has.
    let events = manager.reconcile(&machine("0-3"), &rules(&[("init", 9)])).expect("a pass");
    assert!(events[0].to_string().contains(&format!("it keeps {own}")), "{events:?}");
    assert_eq!(manager.groups.cpus("init"), own);
    // The last shared CPU: without a reserved one it stays shared all the same.
    let all = Rules { reserved: CpuList::default(), ..rules(&[("init", 4)]) };
    let events = manager.reconcile(&machine("0-3"), &all).expect("a pass");
    assert!(events[0].to_string().contains("must stay for all others"), "{events:?}");
}

#[test]
fn groups_without_a_rule_and_gone_ones_give_back() {
    let (mut manager, _path) = manager("gone", Model::new("0-7", &GROUPS));
    let two = rules(&[("init", 2), ("a.slice/db", 2)]);
    manager.reconcile(&machine("0-7"), &two).expect("a pass");
    manager.groups.files.remove("a.slice/db");
    let events = manager.reconcile(&machine("0-7"), &two).expect("a pass");
    assert!(matches!(&events[..], [Event::Released(group, _)] if group == "a.slice/db"));
    let events = manager.reconcile(&machine("0-7"), &rules(&[])).expect("a pass");
    assert!(matches!(&events[..], [Event::Released(group, _)] if group == "init"));
    assert_eq!(manager.groups.cpus("user"), "0-7");
}

#[test]
fn without_permission_it_says_so() {
    let mut model = Model::new("0-7", &GROUPS);
    model.is_read_only = true;
    let (mut manager, _path) = manager("permission", model);
    let error = manager.reconcile(&machine("0-7"), &rules(&[("init", 2)])).expect_err("refused");
    assert!(error.to_string().contains("run it as root"), "{error}");
}
