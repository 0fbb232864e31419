//! Authenticated denial of existence: NSEC (RFC 4035 §3.1.3) and NSEC3 (RFC 5155 §7.2).
use crate::find::ZoneName;
use crate::limits::PROOFS_MAX;
use crate::reply::{OwnerName, ReplySection, ReplyWriter, absolute};
use image::{HashKey, Leaf, Node, Nsec3Params, RelName, Tree, Zone};
use sha1::{Digest, Sha1};
use wire::Rtype;
use wire::limits::PADDED_LEN;

/// Bytes of a hashed owner name's label with its length byte: SHA-1 in base32hex.
const HASHED_LEN: usize = 33;

/// The records of all proofs in one answer, each once.
pub(crate) struct Proofs<'w> {
    records: [Option<(&'w dyn Zone, Node<'w>)>; PROOFS_MAX],
    len: usize,
}

impl<'w> Proofs<'w> {
    pub(crate) const fn new() -> Self {
        Self { records: [None; PROOFS_MAX], len: 0 }
    }

    fn add(&mut self, zone: &'w dyn Zone, node: Node<'w>) {
        let known =
            |(_, other): &(&dyn Zone, Node<'_>)| core::ptr::eq(other.as_bytes(), node.as_bytes());
        if self.records[..self.len].iter().flatten().any(known) {
            return;
        }
        if let Some(place) = self.records.get_mut(self.len) {
            *place = Some((zone, node));
            self.len += 1;
        }
    }

    /// Puts the records into the authority section.
    pub(crate) fn put(&self, reply: &mut ReplyWriter<'_>) {
        for (zone, node) in self.records[..self.len].iter().flatten() {
            let set = node.set(Rtype::NSEC).or_else(|| node.set(Rtype::NSEC3));
            let (Some(set), false) = (set, reply.is_truncated()) else { continue };
            let owner = absolute(node.name(), zone.origin());
            reply.put_needed(
                ReplySection::Authority,
                OwnerName::Name(owner.as_name()),
                &set,
                *node,
            );
        }
    }
}

/// Finds the records that prove something about one name.
pub(crate) struct Denial<'d, 'w> {
    key: &'d HashKey,
    zone: &'w dyn Zone,
    place: ZoneName<'d>,
    proofs: &'d mut Proofs<'w>,
}

impl<'d, 'w> Denial<'d, 'w> {
    pub(crate) fn new(
        key: &'d HashKey,
        zone: &'w dyn Zone,
        place: ZoneName<'d>,
        proofs: &'d mut Proofs<'w>,
    ) -> Self {
        Self { key, zone, place, proofs }
    }

    /// Proves that neither the name nor a wildcard for it exists.
    pub(crate) fn no_name(&mut self, encloser: usize) {
        let (wildcard, len) = self.place.wildcard(encloser);
        match &self.zone.facts().nsec3 {
            None => {
                self.cover(self.place.as_bytes());
                self.cover(&wildcard[..len]);
            }
            Some(params) => {
                let encloser = self.enclose(params, encloser);
                let (wildcard, len) = self.place.wildcard(encloser);
                self.cover_hashed(params, &wildcard[..len]);
            }
        }
    }

    /// Proves that the name has no record of the type.
    pub(crate) fn no_data(&mut self, node: Node<'w>) {
        match &self.zone.facts().nsec3 {
            None if node.set(Rtype::NSEC).is_some() => self.add(node),
            // An empty non-terminal has no NSEC record: it lies in another record's gap.
            None => self.cover(node.name()),
            Some(params) => match self.hashed(params, node.name()) {
                Some(hashed) => self.add(hashed),
                // Opt-out (RFC 5155 §7.2.4): only an ancestor can be proved.
                None => {
                    self.enclose(params, self.place.depth().saturating_sub(1));
                }
            },
        }
    }

    /// Proves that the wildcard has no record of the type.
    pub(crate) fn no_wildcard_data(&mut self, node: Node<'w>, encloser: usize) {
        match &self.zone.facts().nsec3 {
            None => {
                self.cover(self.place.as_bytes());
                self.no_data(node);
            }
            Some(params) => {
                self.enclose(params, encloser);
                if let Some(hashed) = self.hashed(params, node.name()) {
                    self.add(hashed);
                }
            }
        }
    }

    /// Proves that the name itself does not exist, for a wildcard answer.
    pub(crate) fn wildcard_answer(&mut self, encloser: usize) {
        match &self.zone.facts().nsec3 {
            None => self.cover(self.place.as_bytes()),
            Some(params) => self.cover_hashed(params, self.place.at(encloser + 1).as_bytes()),
        }
    }

    /// Proves that a delegation has no DS.
    pub(crate) fn no_ds(&mut self, cut: Node<'w>, depth: usize) {
        match &self.zone.facts().nsec3 {
            None => self.add(cut),
            Some(params) => match self.hashed(params, cut.name()) {
                Some(hashed) => self.add(hashed),
                None => {
                    self.enclose(params, depth.saturating_sub(1));
                }
            },
        }
    }

    fn add(&mut self, node: Node<'w>) {
        self.proofs.add(self.zone, node);
    }

    /// The closest provable encloser proof (RFC 5155 §7.2.1): the NSEC3 record of the deepest
    /// ancestor from `encloser` upwards, and the record that covers the next closer name. Returns
    /// the ancestor's depth.
    fn enclose(&mut self, params: &Nsec3Params, encloser: usize) -> usize {
        for depth in (0..=encloser).rev() {
            if let Some(hashed) = self.hashed(params, self.place.at(depth).as_bytes()) {
                self.add(hashed);
                self.cover_hashed(params, self.place.at(depth + 1).as_bytes());
                return depth;
            }
        }
        encloser
    }

    /// Adds the NSEC record that covers a name.
    fn cover(&mut self, name: &[u8]) {
        let names = self.zone.names();
        let mut rank = names.rank(name);
        while rank > 0 {
            let Some(node) = names.at(rank - 1) else { return };
            // Names below a cut have no NSEC and may be many: the record of the cut covers them.
            let node = self.cut_above(node.name()).unwrap_or(node);
            if node.set(Rtype::NSEC).is_some() {
                return self.add(node);
            }
            // Only empty non-terminals remain, at most one for each label.
            rank = names.rank(node.name());
        }
    }

    /// The delegation or DNAME above a name of the zone.
    fn cut_above(&self, name: &[u8]) -> Option<Node<'w>> {
        let (mut at, mut starts, mut depth) = (0, [0u8; wire::Name::LABELS_MAX], 0);
        while at < name.len() {
            starts[depth] = at as u8;
            depth += 1;
            at += 1 + usize::from(name[at]);
        }
        let mut buffer = [0; PADDED_LEN];
        buffer[..name.len()].copy_from_slice(name);
        let mut above = self.zone.facts().cuts.up_to(depth).filter(|cut| *cut > 0 && *cut < depth);
        above.find_map(|cut| {
            let start = usize::from(starts[depth - cut]);
            let node = self.zone.find(self.key, RelName::new(&buffer, start, name.len()))?;
            let hides = node.set(Rtype::NS).or_else(|| node.set(Rtype::DNAME)).is_some();
            hides.then_some(node)
        })
    }

    fn hashed(&self, params: &Nsec3Params, name: &[u8]) -> Option<Node<'w>> {
        let label = self.hash(params, name);
        let hash = self.key.hash_of(&label);
        Leaf::new(self.zone.hashed().leaf(hash)).find(hash, &label)
    }

    /// Adds the NSEC3 record that covers a name's hash.
    fn cover_hashed(&mut self, params: &Nsec3Params, name: &[u8]) {
        let hashed: &'w dyn Tree = self.zone.hashed();
        let label = self.hash(params, name);
        let rank = hashed.rank(&label);
        // The gap of the last record wraps around to the first (RFC 5155 §3.1.7).
        let before = rank.checked_sub(1).or_else(|| hashed.len().checked_sub(1));
        if let Some(node) = before.and_then(|rank| hashed.at(rank)) {
            self.add(node);
        }
    }

    /// The hashed owner label of a name (RFC 5155 §5).
    fn hash(&self, params: &Nsec3Params, name: &[u8]) -> [u8; HASHED_LEN] {
        let salt = &params.salt[..params.salt_len.into()];
        let mut digest = Sha1::new().chain_update(name).chain_update(self.zone.origin().as_bytes());
        let mut hash = digest.chain_update(salt).finalize();
        for _ in 0..params.iterations {
            digest = Sha1::new().chain_update(hash);
            hash = digest.chain_update(salt).finalize();
        }
        base32hex_label(&hash.into())
    }
}

/// base32hex (RFC 4648 §7) in lower case, as a label.
fn base32hex_label(hash: &[u8; 20]) -> [u8; HASHED_LEN] {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let mut label = [0; HASHED_LEN];
    label[0] = HASHED_LEN as u8 - 1;
    for (from, into) in hash.chunks_exact(5).zip(label[1..].chunks_exact_mut(8)) {
        let bits = from.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        for (at, digit) in into.iter_mut().enumerate() {
            *digit = DIGITS[(bits >> (35 - 5 * at)) as usize & 31];
        }
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base32hex_is_that_of_rfc_4648() {
        let mut hash = [0; 20];
        hash[..5].copy_from_slice(b"fooba");
        assert_eq!(&base32hex_label(&hash)[..9], b"\x20cpnmuoj1");
    }
}
