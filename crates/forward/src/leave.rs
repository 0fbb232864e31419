//! Questions that somebody else sees to.
use crate::ask::{Ask, Group};
use crate::forwarder::{Asked, Dice, Event, Forwarder, Ticket};
use cache::Key;

impl Ask {
    /// Whether somebody else sees to it: no server was asked.
    pub fn is_left(&self) -> bool {
        self.left_until.is_some()
    }

    /// Whether somebody else sees to it, or did and was late: he may answer still.
    pub fn was_left(&self) -> bool {
        self.was_left
    }
}

impl Forwarder<'_> {
    /// Whether a question is under way that may be joined.
    pub fn is_asked(&self, key: &Key<'_>, group: Group) -> bool {
        self.find(key, group).is_some()
    }

    /// Begins a question, which is not under way, without asking anybody: somebody else is to see
    /// to it until then, when [`Event::Late`] comes. `waiter` is as for [`ask`](Self::ask).
    /// Nothing: too much is under way, or the group has no servers.
    pub fn leave(
        &mut self,
        key: &Key<'_>,
        group: Group,
        waiter: Option<u16>,
        until: u64,
        now: u64,
    ) -> Option<Ticket> {
        if group.len == 0 {
            return None;
        }
        let number = self.begin(key, group, now)?;
        let ticket = self.ticket(number);
        let joined = self.join(number, waiter);
        debug_assert_eq!(joined, Asked::Waits, "it is the first");
        self.asks[usize::from(number)].was_left = true;
        self.wait(ticket, until);
        Some(ticket)
    }

    /// Has somebody else see to a question for longer.
    pub fn wait(&mut self, ticket: Ticket, until: u64) {
        if self.get(ticket).is_some() {
            self.asks[usize::from(ticket.number)].left_until = Some(until);
            self.state.wheel.set(ticket.number, until);
        }
    }

    /// Asks servers about a question that was left to somebody else. Who that was may answer all
    /// the same.
    pub fn urge(&mut self, ticket: Ticket, now: u64, dice: Dice<'_>) -> Event {
        match self.get(ticket) {
            Some(ask) if ask.is_left() => {
                self.asks[usize::from(ticket.number)].left_until = None;
                self.earn();
                self.go_on(ticket.number, now, dice)
            }
            _ => Event::Nothing,
        }
    }
}
