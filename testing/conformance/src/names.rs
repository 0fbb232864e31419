//! Names as this room uses them: owned, absolute, compared without regard to case.

use domain::base::Name as DomainName;
use domain::base::name::{NameBuilder, ToName};

use crate::random::Random;

/// An absolute name in its own vector.
pub type Name = DomainName<Vec<u8>>;

/// The name written as `text`, which is made absolute with or without its last dot.
pub fn name(text: &str) -> Name {
    Name::vec_from_str(text).unwrap_or_else(|error| panic!("{text} is not a name: {error}"))
}

/// `label` below `origin`, or nothing where that would be longer than 255 bytes.
pub fn child(label: &[u8], origin: &Name) -> Option<Name> {
    let mut builder = NameBuilder::new_vec();
    builder.append_label(label).ok()?;
    builder.append_origin(origin).ok()
}

/// The name one label up, or nothing above the root.
pub fn parent(of: &Name) -> Option<Name> {
    of.parent().map(|name| name.to_name())
}

/// The first label, without its length.
pub fn first_label(of: &Name) -> &[u8] {
    of.first().as_slice()
}

/// `of` with every letter in lower case.
pub fn lower(of: &Name) -> Name {
    let mut name = of.clone();
    name.make_canonical();
    name
}

/// `of` in random case of letters.
pub fn shuffle_case(of: &Name, random: &mut Random) -> Name {
    let mut builder = NameBuilder::new_vec();
    for label in of.iter().filter(|label| !label.is_root()) {
        let label: Vec<u8> = label
            .as_slice()
            .iter()
            .map(|byte| if random.chance(50) { byte.to_ascii_uppercase() } else { *byte })
            .collect();
        builder.append_label(&label).expect("the name was no longer before");
    }
    builder.into_name().expect("the name was no longer before")
}
