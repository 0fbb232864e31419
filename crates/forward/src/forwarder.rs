//! What is asked of whom, and when of another one.
use crate::ask::{Ask, Group, NONE, Try};
use crate::casing::Casing;
use crate::limits::{
    ASK_MICROS_MAX, ASKS_MAX, GROUP_LEN_MAX, HEDGE_SHARE, HEDGES_MAX, TRIES_MAX, UPSTREAMS_MAX,
    WAITERS_MAX, WAITERS_OF_ASK_MAX,
};
use crate::message::{QUESTION_LEN_MAX, compose};
use crate::upstream::{Means, Standing, Upstream};
use crate::wheel::Wheel;
use cache::Key;

/// Lists of asks, by their hashes.
const LISTS: usize = ASKS_MAX;
/// Orders that one call can give: a server, and another one that is tried again.
const ORDERS_MAX: usize = 2;

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It is under way, or was already.
    Waits,
    /// Too much is under way, or too many wait for this.
    Full,
    /// All servers failed not long ago.
    Nobody,
}

/// Something to send: see [`Forwarder::compose`] and [`Forwarder::sent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Who is asked.
    pub upstream: u16,
    /// Whether by stream, and not by datagram.
    pub by_stream: bool,
    pub(crate) ask: u16,
    pub(crate) serial: u32,
    pub(crate) attempt: u8,
}

impl Order {
    pub(crate) const fn ticket(&self) -> Ticket {
        Ticket { number: self.ask, serial: self.serial }
    }
}

/// A question under way, by the number of its room and what tells it from others there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub(crate) number: u16,
    serial: u32,
}

impl Ticket {
    /// As one number.
    pub const fn to_bits(self) -> u64 {
        (self.serial as u64) << 16 | self.number as u64
    }

    /// What was written as a number.
    pub const fn from_bits(bits: u64) -> Self {
        Self { number: bits as u16, serial: (bits >> 16) as u32 }
    }

    /// The number of its room, below [`ASKS_MAX`].
    pub const fn room(self) -> usize {
        self.number as usize
    }
}

/// What came of a message, of a stream's end, or of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The message answers this question. Who waits is to be told, then it is to be
    /// [ended](Forwarder::end).
    Answer(Ticket),
    /// Nobody could answer. Who waits is to be told, then it is to be [ended](Forwarder::end).
    Failure(Ticket),
    /// Who sees to this question is late: [`wait`](Forwarder::wait) for him longer, or
    /// [`urge`](Forwarder::urge) it.
    Late(Ticket),
    /// Nothing to be done but what was ordered.
    Nothing,
}

/// All but the asks themselves.
#[derive(Debug)]
pub struct State {
    pub(crate) upstreams: [Upstream; UPSTREAMS_MAX],
    pub(crate) wheel: Wheel,
    /// The first ask of each list.
    lists: [u16; LISTS],
    /// The first room that is free.
    free: u16,
    /// For each message id, one more than the number of its ask and try; 0: nobody waits for it.
    pub(crate) ids: [u16; 1 << 16],
    /// For each waiter, who waits for the same.
    waiters: [u16; WAITERS_MAX],
    /// Questions under way.
    len: usize,
    /// Second servers that may be asked, in units of a share of one.
    hedges: u32,
    orders: [Option<Order>; ORDERS_MAX],
}

impl State {
    /// Nobody is known, and nothing under way. `asks` is all the room there is, at most
    /// [`ASKS_MAX`].
    pub fn new(asks: &mut [Ask]) -> Self {
        let last = asks.len().min(ASKS_MAX);
        for (number, ask) in asks.iter_mut().enumerate().take(last) {
            ask.next = if number + 1 == last { NONE } else { number as u16 + 1 };
        }
        Self {
            upstreams: [const { Upstream::NEW }; UPSTREAMS_MAX],
            wheel: Wheel::new(),
            lists: [NONE; LISTS],
            free: if last == 0 { NONE } else { 0 },
            ids: [0; 1 << 16],
            waiters: [NONE; WAITERS_MAX],
            len: 0,
            hedges: HEDGES_MAX * HEDGE_SHARE,
            orders: [None; ORDERS_MAX],
        }
    }
}

/// Numbers that nobody can guess.
pub type Dice<'d> = &'d mut dyn FnMut() -> u64;

/// One thread's questions under way, in memory of somebody else's. Times are monotonic
/// microseconds, and never go back.
#[derive(Debug)]
pub struct Forwarder<'m> {
    /// All but the asks.
    pub state: &'m mut State,
    /// The asks, as many as the state was made for.
    pub asks: &'m mut [Ask],
}

impl Forwarder<'_> {
    /// Asks servers of a group, unless somebody already does, and has `waiter` wait for the answer,
    /// if it is for one: a number below [`WAITERS_MAX`], which waits for nothing else.
    pub fn ask(
        &mut self,
        key: &Key<'_>,
        group: Group,
        waiter: Option<u16>,
        now: u64,
        dice: Dice<'_>,
    ) -> Asked {
        if group.len == 0 {
            return Asked::Nobody;
        }
        let number = match self.find(key, group) {
            Some(number) => number,
            None => {
                let Some(number) = self.begin(key, group, now) else { return Asked::Full };
                self.earn();
                if !self.try_next(number, now, dice) {
                    self.end(self.ticket(number));
                    return Asked::Nobody;
                }
                self.try_failing(number, now, dice);
                self.schedule(number, now);
                number
            }
        };
        self.join(number, waiter)
    }

    /// The question under way that is this one, unless it was cut off.
    pub(crate) fn find(&self, key: &Key<'_>, group: Group) -> Option<u16> {
        let mut number = self.state.lists[key.hash as usize % LISTS];
        while number != NONE && !self.asks[usize::from(number)].is(key, group) {
            number = self.asks[usize::from(number)].next;
        }
        (number != NONE).then_some(number)
    }

    /// Takes room for a question, if there is some.
    pub(crate) fn begin(&mut self, key: &Key<'_>, group: Group, now: u64) -> Option<u16> {
        let number = self.state.free;
        let ask = self.asks.get_mut(usize::from(number))?;
        self.state.free = ask.next;
        ask.begin(key, group, now);
        let first = &mut self.state.lists[key.hash as usize % LISTS];
        ask.next = core::mem::replace(first, number);
        self.state.len += 1;
        Some(number)
    }

    /// Counts a question that servers are asked about: for so many, a second one may be asked.
    pub(crate) fn earn(&mut self) {
        self.state.hedges = (self.state.hedges + 1).min(HEDGES_MAX * HEDGE_SHARE);
    }

    /// Has somebody wait for a question, if it is for anybody.
    pub(crate) fn join(&mut self, number: u16, waiter: Option<u16>) -> Asked {
        let Some(waiter) = waiter else { return Asked::Waits };
        let ask = &mut self.asks[usize::from(number)];
        if ask.waiters == WAITERS_OF_ASK_MAX {
            return Asked::Full;
        }
        ask.waiters += 1;
        self.state.waiters[usize::from(waiter)] = core::mem::replace(&mut ask.waiter, waiter);
        Asked::Waits
    }

    /// What is to be sent next.
    pub fn order(&mut self) -> Option<Order> {
        self.state.orders.iter_mut().find_map(Option::take)
    }

    /// Writes what is to be sent; returns its length.
    pub fn compose(&self, order: &Order, buf: &mut [u8; QUESTION_LEN_MAX]) -> usize {
        let ask = &self.asks[usize::from(order.ask)];
        let means = self.state.upstreams[usize::from(order.upstream)].means;
        compose(ask, &ask.tries[usize::from(order.attempt)], means, buf)
    }

    /// When [`expire`](Self::expire) is worth calling, if ever.
    pub fn next_micros(&self) -> Option<u64> {
        self.state.wheel.next_micros()
    }

    /// A question under way, unless it has ended.
    pub fn get(&self, ticket: Ticket) -> Option<&Ask> {
        let ask = self.asks.get(usize::from(ticket.number))?;
        (ask.serial == ticket.serial && ask.group.len > 0).then_some(ask)
    }

    /// One of those who wait for an answer, who does so no longer.
    pub fn take_waiter(&mut self, ticket: Ticket) -> Option<u16> {
        self.get(ticket)?;
        let ask = &mut self.asks[usize::from(ticket.number)];
        let waiter = ask.waiter;
        let next = self.state.waiters.get(usize::from(waiter))?;
        ask.waiter = *next;
        ask.waiters -= 1;
        Some(waiter)
    }

    /// Ends a question. What comes for it later is a reply to nothing, but where it shows whether a
    /// server is back: then it goes on for nobody.
    pub fn end(&mut self, ticket: Ticket) {
        if self.get(ticket).is_none() {
            return;
        }
        let Ticket { number, .. } = ticket;
        let state = &mut *self.state;
        let ask = &mut self.asks[usize::from(number)];
        if ask.lingers(&state.upstreams) {
            return;
        }
        for (attempt, sent) in ask.tries().iter().enumerate() {
            let id = &mut state.ids[usize::from(sent.id)];
            if *id == id_of(number, attempt) {
                *id = 0;
            }
            if sent.is_waited {
                state.upstreams[usize::from(sent.upstream)].let_go();
            }
        }
        state.wheel.clear(number);
        let (list, next) = (ask.hash as usize % LISTS, ask.next);
        ask.group.len = 0;
        ask.next = core::mem::replace(&mut state.free, number);
        state.len -= 1;
        let mut before = state.lists[list];
        if before == number {
            state.lists[list] = next;
            return;
        }
        while self.asks[usize::from(before)].next != number {
            before = self.asks[usize::from(before)].next;
        }
        self.asks[usize::from(before)].next = next;
    }

    /// What is known of a server.
    pub fn upstream(&mut self, number: u16) -> &mut Upstream {
        &mut self.state.upstreams[usize::from(number)]
    }

    /// Questions under way.
    pub fn len(&self) -> usize {
        self.state.len
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.state.len == 0
    }

    pub(crate) fn ticket(&self, number: u16) -> Ticket {
        Ticket { number, serial: self.asks[usize::from(number)].serial }
    }

    pub(crate) fn mismatch(&mut self, upstream: u16) -> Event {
        self.state.upstreams[usize::from(upstream)].counts.mismatched += 1;
        Event::Nothing
    }

    /// A try is over without an answer: asks another server, waits for one that was asked, or
    /// gives up.
    pub(crate) fn go_on(&mut self, number: u16, now: u64, dice: Dice<'_>) -> Event {
        let ask = &self.asks[usize::from(number)];
        let waits = ask.tries().iter().any(|sent| sent.is_waited);
        if !waits && (ask.is_for_nobody() || !self.try_next(number, now, dice)) {
            self.state.wheel.clear(number);
            return Event::Failure(self.ticket(number));
        }
        self.schedule(number, now);
        Event::Nothing
    }

    /// Asks the server that is likely to answer first, of those that were asked least.
    fn try_next(&mut self, number: u16, now: u64, dice: Dice<'_>) -> bool {
        let ask = &self.asks[usize::from(number)];
        if now - ask.began_at >= ASK_MICROS_MAX {
            return false;
        }
        let standings = [Standing::Up, Standing::Drained, Standing::Due, Standing::Down];
        let best = standings.into_iter().find_map(|standing| self.best(ask, now, standing));
        best.is_some_and(|upstream| self.send(number, (upstream, false), now, dice))
    }

    /// Sees whether a server that failed is back: it is asked too, and nobody waits for it alone.
    fn try_failing(&mut self, number: u16, now: u64, dice: Dice<'_>) {
        let ask = &self.asks[usize::from(number)];
        if let Some(upstream) = self.best(ask, now, Standing::Due)
            && ask.asked(upstream) == 0
        {
            self.send(number, (upstream, false), now, dice);
        }
    }

    /// Asks a second server where the first one is late, for one question in so many.
    pub(crate) fn hedge(&mut self, number: u16, now: u64, dice: Dice<'_>) {
        let ask = &self.asks[usize::from(number)];
        let mut waited = ask.tries().iter().filter(|sent| sent.is_waited);
        let (Some(sent), None) = (waited.next(), waited.next()) else { return };
        let server = &self.state.upstreams[usize::from(sent.upstream)];
        let is_late = now - sent.sent_at >= server.hedge_micros();
        if !is_late || ask.is_hedged || self.state.hedges < HEDGE_SHARE {
            return;
        }
        let other = self.best(ask, now, Standing::Up).filter(|other| ask.asked(*other) == 0);
        if let Some(other) = other
            && self.send(number, (other, false), now, dice)
        {
            self.state.hedges -= HEDGE_SHARE;
            self.asks[usize::from(number)].is_hedged = true;
        }
    }

    /// The cheapest server of a standing, of those that this question was sent to least.
    fn best(&self, ask: &Ask, now: u64, standing: Standing) -> Option<u16> {
        let len = ask.group.len.min(GROUP_LEN_MAX as u16);
        (ask.group.first..ask.group.first + len)
            .filter(|number| {
                let server = &self.state.upstreams[usize::from(*number)];
                server.serves_as(standing, now) && ask.may_ask(*number)
            })
            .min_by_key(|number| {
                (ask.asked(*number), self.state.upstreams[usize::from(*number)].cost(now))
            })
    }

    /// Gives the order to send a question, by stream where the server is asked so anyway or the
    /// answer is too long for a datagram; false where that was done often enough.
    pub(crate) fn send(
        &mut self,
        number: u16,
        (upstream, is_long): (u16, bool),
        now: u64,
        dice: Dice<'_>,
    ) -> bool {
        let ask = &mut self.asks[usize::from(number)];
        let attempt = usize::from(ask.tries_len);
        let Some(order) = self.state.orders.iter_mut().find(|order| order.is_none()) else {
            return false;
        };
        if attempt == TRIES_MAX {
            return false;
        }
        // Few ids are taken, of very many; who finds none in so many throws may as well give up.
        let mut throws = core::iter::repeat_with(|| dice() as u16).take(64);
        let Some(id) = throws.find(|id| self.state.ids[usize::from(*id)] == 0) else {
            return false;
        };
        self.state.ids[usize::from(id)] = id_of(number, attempt);
        let server = &mut self.state.upstreams[usize::from(upstream)];
        let by_stream = is_long || server.means != Means::Datagrams;
        let mixes_case = ask.group.mixes_case && !by_stream;
        let casing = if mixes_case { Casing::new(dice()) } else { Casing::LOWER };
        ask.tries[attempt] = Try {
            upstream,
            id,
            casing,
            by_stream,
            is_opening: by_stream,
            sent_at: now,
            patience_micros: server.wait_micros(ask.asked(upstream), now),
            is_waited: true,
            ..Try::NEVER
        };
        ask.tries_len += 1;
        let (serial, attempt) = (ask.serial, attempt as u8);
        *order = Some(Order { upstream, by_stream, ask: number, serial, attempt });
        server.ask(now);
        true
    }

    /// Notes when a question is to be looked at again.
    pub(crate) fn schedule(&mut self, number: u16, now: u64) {
        let ask = &self.asks[usize::from(number)];
        let servers = &self.state.upstreams;
        let waited = ask.tries().iter().filter(|sent| sent.is_waited).map(|sent| {
            let server = &servers[usize::from(sent.upstream)];
            let hedge = sent.sent_at + server.hedge_micros();
            let wait = sent.sent_at + sent.wait_micros();
            if ask.is_hedged || hedge <= now { wait } else { hedge }
        });
        self.state.wheel.set(number, waited.min().unwrap_or(now));
    }
}

/// What stands for a try in the table of ids.
fn id_of(number: u16, attempt: usize) -> u16 {
    number * TRIES_MAX as u16 + attempt as u16 + 1
}
