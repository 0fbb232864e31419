//! A disk that forgets what was not synced, and may fill up.
use redb::StorageBackend;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// Octets that reach a disk at once or not at all.
const SECTOR: usize = 512;

/// Dice from a seed (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

#[derive(Clone, Debug)]
enum Op {
    Write(usize, Vec<u8>),
    Len(usize),
}

impl Op {
    fn apply(&self, octets: &mut Vec<u8>) {
        match self {
            Self::Write(at, data) => {
                let end = at + data.len();
                octets.resize(octets.len().max(end), 0);
                octets[*at..end].copy_from_slice(data);
            }
            Self::Len(len) => octets.resize(*len, 0),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// What reads see.
    seen: Vec<u8>,
    /// What a crash cannot take away.
    synced: Vec<u8>,
    unsynced: Vec<Op>,
    /// Operations until the machine goes down.
    crash_after: Option<u64>,
    /// Writes until there is no room.
    room: Option<u64>,
    /// Whether what is to be kept is not, though that is said to be done.
    lies: bool,
}

/// Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<State>>);

impl Disk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Counts an operation.
    fn step(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        match &mut state.crash_after {
            Some(0) => return Err(io::Error::other("the machine is down")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(state)
    }

    fn change(&self, op: Op) -> io::Result<()> {
        let mut state = self.step()?;
        match &mut state.room {
            Some(0) => return Err(io::ErrorKind::StorageFull.into()),
            Some(left) => *left -= 1,
            None => {}
        }
        op.apply(&mut state.seen);
        state.unsynced.push(op);
        Ok(())
    }

    pub fn crash_after(&self, operations: u64) {
        self.lock().crash_after = Some(operations);
    }

    /// The machine never went down: its disk was only away.
    pub fn is_back(&self) {
        self.lock().crash_after = None;
    }

    pub fn has_crashed(&self) -> bool {
        self.lock().crash_after == Some(0)
    }

    pub fn fill_after(&self, writes: u64) {
        self.lock().room = Some(writes);
    }

    /// From now on it is as if nobody told it to keep anything.
    pub fn lie(&self) {
        self.lock().lies = true;
    }

    pub fn has_room(&self) {
        self.lock().room = None;
    }

    /// The disk as it is found after the power came back: of what was not synced any sectors may
    /// be there, in any order.
    pub fn reboot(&self, dice: &mut Dice) -> Disk {
        let state = self.lock();
        let mut octets = state.synced.clone();
        let keeps = dice.below(4);
        for op in &state.unsynced {
            match op {
                Op::Len(_) if dice.below(4) >= keeps => op.apply(&mut octets),
                Op::Len(_) => {}
                Op::Write(at, data) => {
                    for (n, sector) in data.chunks(SECTOR).enumerate() {
                        if dice.below(4) >= keeps {
                            let at = at + n * SECTOR;
                            Op::Write(at, sector.to_vec()).apply(&mut octets);
                        }
                    }
                }
            }
        }
        let (seen, synced) = (octets.clone(), octets);
        Disk(Arc::new(Mutex::new(State { seen, synced, ..State::default() })))
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.lock();
        let at = offset as usize;
        let found = state.seen.get(at..at + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Op::Len(len as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.step()?;
        if state.lies {
            return Ok(());
        }
        state.synced = state.seen.clone();
        state.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Op::Write(offset as usize, data.to_vec()))
    }
}
