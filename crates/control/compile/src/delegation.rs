//! Delegations within a zone.
use crate::Zone;
use image::Node;
use packet::View;
use wire::Rtype;

impl Zone {
    /// The topmost delegation at or above a relative name.
    pub fn cut<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        self.cut_in(View::DEFAULT, name)
    }

    /// The same, as the clients of a view see it.
    pub(crate) fn cut_in<'n>(&self, view: View, name: &'n [u8]) -> Option<&'n [u8]> {
        if self.in_view(view).facts().cuts == Default::default() {
            return None;
        }
        let is_cut = |node: Node<'_>| node.set(Rtype::NS).is_some();
        let mut found = None;
        let mut rest = name;
        while let [len, ..] = rest {
            if self.node_in(view, rest).is_some_and(is_cut) {
                found = Some(rest);
            }
            rest = rest.get(1 + usize::from(*len)..)?;
        }
        found
    }
}
