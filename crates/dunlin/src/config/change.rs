//! What of a changed config a running server cannot take over by itself.
use crate::config::Config;

impl Config {
    /// The keys whose new values wait for a restart, or for a successor that takes over: what was
    /// opened, started or given up with them is there once.
    pub fn restart_needed(&self, new: &Self) -> Vec<&'static str> {
        let (old_server, server) = (&self.server, &new.server);
        let keys = [
            ("server.listen", old_server.listen == server.listen),
            ("server.workers", old_server.workers == server.workers),
            ("server.port", old_server.port == server.port),
            ("server.pin", old_server.pin == server.pin),
            ("server.steering", old_server.steering == server.steering),
            ("server.data_dir", old_server.data_dir == server.data_dir),
            ("server.user", old_server.user == server.user),
            ("server.group", old_server.group == server.group),
            ("limits.memory", self.limits.memory == new.limits.memory),
            ("streams", self.streams == new.streams),
            ("ops.listen", self.ops == new.ops),
            ("admin.socket", self.admin == new.admin),
            ("log.format", self.log.format == new.log.format),
        ];
        keys.into_iter().filter(|(_, same)| !same).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_there_once_needs_a_restart() {
        let config = |text: &str| Config::parse(Path::new("f"), text).expect("a config");
        let old = config("");
        assert_eq!(old.restart_needed(&config("server.nsid = \"a\"")), [""; 0]);
        let new = config("server.workers = 3\nstreams.idle = \"3s\"\nlog.level = \"debug\"");
        assert_eq!(old.restart_needed(&new), ["server.workers", "streams"]);
    }
}
