//! A machine that runs the real systemd: a copy of this one in memory.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use test_support::wait::{until, until_true};

/// Boots systemd with its own root over this machine's, its own control groups, the binary and the
/// files of the package. $1: a scratch folder; $2: the binary; $3: the packaging; $4: the content
/// of /etc/dunlin; $5: lines for the unit.
const BOOT: &str = r#"
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root" "$1/groups"
mount -t cgroup2 cgroup2 "$1/groups"
group="$1/groups/dunlin-test-$$"
mkdir "$group"
echo $$ >"$group/cgroup.procs"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
rm -rf etc/systemd/system etc/dunlin var/lib/dunlin var/log/dunlin
mkdir -p etc/systemd/system/dunlin.service.d etc/dunlin
printf '[Unit]\nDefaultDependencies=no\n' >etc/systemd/system/test.target
printf '[Service]\nStandardError=append:/etc/dunlin/log\n%b' "$5" \
  >etc/systemd/system/dunlin.service.d/test.conf
cp "$3/dunlin.service" "$3/dunlin.socket" etc/systemd/system/
cp "$3/dunlin.sysusers" usr/lib/sysusers.d/dunlin.conf
touch usr/bin/dunlin
mount --bind "$2" usr/bin/dunlin
mount --bind "$4" etc/dunlin
mount --rbind /dev dev
mount --rbind /sys sys
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
chroot . systemd-sysusers /usr/lib/sysusers.d/dunlin.conf 2>"$1/sysusers"
unshare --cgroup --mount --pid --fork --uts --ipc --kill-child sh -c '
  mount -t proc proc proc
  mount -t cgroup2 cgroup2 sys/fs/cgroup
  export container=test
  exec chroot . /lib/systemd/systemd --system --unit=test.target
' || true
cd /
echo $$ >"$1/groups/cgroup.procs"
find "$group" -depth -type d -exec rmdir {} +
"#;

/// Whether such a machine is possible here. If not, prints so, and panics if nothing may be
/// skipped.
pub fn is_possible() -> bool {
    let mut lacks = Vec::new();
    if !rustix::process::geteuid().is_root() {
        lacks.push("root");
    }
    if !Path::new("/lib/systemd/systemd").exists() {
        lacks.push("systemd");
    }
    if Command::new("fstrm_capture").arg("--help").output().is_err() {
        lacks.push("fstrm_capture (fstrm-bin)");
    }
    if lacks.is_empty() {
        return true;
    }
    assert!(std::env::var_os("DUNLIN_REQUIRE_ALL").is_none(), "this test needs {lacks:?}");
    eprintln!("SKIPPED: this test needs {lacks:?}");
    false
}

/// A machine that runs systemd, removed when dropped.
pub struct Machine {
    boot: Child,
    /// Its first process, by its ID on this machine.
    first: String,
    /// /etc/dunlin
    pub folder: PathBuf,
}

impl Machine {
    /// Boots a machine with these files in /etc/dunlin, and these lines added to the unit.
    pub fn boot(test: &str, files: &[(&str, &str)], lines: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&folder);
        let (scratch, etc) = (folder.join("scratch"), folder.join("etc"));
        fs::create_dir_all(&scratch).expect("a folder");
        fs::create_dir_all(&etc).expect("a folder");
        for (file, text) in files {
            fs::write(etc.join(file), text).expect("a file");
        }
        let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
        let boot = Command::new("unshare")
            .args(["--mount", "sh", "-c", BOOT, "sh"])
            .args([&scratch, Path::new(env!("CARGO_BIN_EXE_dunlin")), &packaging, &etc])
            .arg(lines)
            .stdin(Stdio::null())
            .spawn()
            .expect("unshare runs");
        let mut machine = Self { boot, first: String::new(), folder: etc };
        machine.first = until("systemd boots", || first_process(machine.boot.id()));
        until_true("systemd is up", || machine.systemctl(&["is-system-running"]).0);
        machine
    }

    /// Runs a command on it, as root.
    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("nsenter runs")
    }

    /// The output of a command that succeeds.
    pub fn told(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {told}\n{}", self.log());
        String::from_utf8(output.stdout).expect("text")
    }

    /// A command on it, as root.
    pub fn command(&self, words: &[&str]) -> Command {
        let root = format!("/proc/{}/root", self.first);
        let mut command = Command::new("nsenter");
        command
            .args(["--mount", "--pid", "--cgroup", "--ipc", "--uts", "--target", &self.first])
            .args([format!("--root={root}"), format!("--wd={root}")])
            .args(words);
        command
    }

    /// Whether systemctl succeeded, and its output.
    pub fn systemctl(&self, words: &[&str]) -> (bool, String) {
        let output = self.run(&[&["timeout", "60", "systemctl"], words].concat());
        let told = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&told).trim().to_owned())
    }

    pub fn do_systemctl(&self, words: &[&str]) {
        let (done, told) = self.systemctl(words);
        assert!(done, "systemctl {words:?}: {told}\n{}", self.log());
    }

    /// Writes a file of /etc/dunlin.
    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).expect("a file");
    }

    /// A property of the service.
    pub fn property(&self, name: &str) -> String {
        let (known, value) = self.systemctl(&["show", "--value", "-p", name, "dunlin.service"]);
        assert!(known, "{name}: {value}");
        value
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The first process ends all others, and then the script cleans up.
        let _ = Command::new("kill").args(["-KILL", &self.first]).status();
        let _ = self.boot.wait();
    }
}

/// The process of systemd below this one.
fn first_process(below: u32) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{below}/task/{below}/children")).ok()?;
    children.split_whitespace().find_map(|child| {
        let name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
        if name == "systemd\n" {
            return Some(child.to_owned());
        }
        first_process(child.parse().ok()?)
    })
}
