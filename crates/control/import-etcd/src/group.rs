//! `group`: services that are answered together.
use crate::key::Key;

/// The services that are answered together: those of the group of the shortest key, and those
/// without one. If the shortest keys disagree, all are.
pub fn grouped(services: Vec<&Key>) -> Vec<&Key> {
    let Some(first) = services.first() else { return services };
    let depth = |key: &Key| key.text.matches('/').count();
    let (mut group, mut shortest) = (&first.service.group, depth(first));
    // Keys after a shorter one without a group count as of depth 0, as in CoreDNS.
    let mut depths = vec![0; services.len()];
    for (place, key) in depths.iter_mut().zip(&services) {
        *place = depth(key);
        if *place < shortest {
            if key.service.group.is_empty() {
                break;
            }
            (group, shortest) = (&key.service.group, *place);
        }
    }
    if group.is_empty() {
        return services;
    }
    let mut together = Vec::new();
    for (key, depth) in services.iter().zip(depths) {
        let own = &key.service.group;
        if !own.is_empty() && depth == shortest && own != group {
            return services;
        }
        if own.is_empty() || own == group {
            together.push(*key);
        }
    }
    together
}
