//! Delegations within a zone.
use crate::Zone;
use image::Node;
use wire::Rtype;

impl Zone {
    /// The topmost delegation at or above a relative name.
    pub fn cut<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        if self.facts.cuts == Default::default() {
            return None;
        }
        let is_cut = |node: Node<'_>| node.set(Rtype::NS).is_some();
        let mut found = None;
        let mut rest = name;
        while let [len, ..] = rest {
            if self.names.get(rest).is_some_and(is_cut) {
                found = Some(rest);
            }
            rest = rest.get(1 + usize::from(*len)..)?;
        }
        found
    }
}
