//! A disk of two files that forgets what was not synced, and may fill up.
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

#[derive(Clone, Debug, Default)]
struct File {
    /// What reads see.
    seen: Vec<u8>,
    /// What a crash cannot take away.
    synced: Vec<u8>,
    unsynced: Vec<Op>,
}

#[derive(Debug, Default)]
struct State {
    files: [File; 2],
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

/// One of its files.
#[derive(Debug)]
pub struct OnDisk(Disk, usize);

impl Disk {
    /// The tree and the log of a store.
    pub fn files(&self) -> (OnDisk, OnDisk) {
        (OnDisk(self.clone(), 0), OnDisk(self.clone(), 1))
    }

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
        let files = self.lock().files.clone().map(|file| {
            let octets = file.left(dice);
            File { seen: octets.clone(), synced: octets, unsynced: Vec::new() }
        });
        Disk(Arc::new(Mutex::new(State { files, ..State::default() })))
    }
}

impl File {
    fn left(self, dice: &mut Dice) -> Vec<u8> {
        let mut octets = self.synced;
        let keeps = dice.below(4);
        for op in &self.unsynced {
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
        octets
    }
}

impl OnDisk {
    fn change(&self, op: Op) -> io::Result<()> {
        let mut state = self.0.step()?;
        match &mut state.room {
            Some(0) => return Err(io::ErrorKind::StorageFull.into()),
            Some(left) => *left -= 1,
            None => {}
        }
        let file = &mut state.files[self.1];
        op.apply(&mut file.seen);
        file.unsynced.push(op);
        Ok(())
    }
}

impl StorageBackend for OnDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().files[self.1].seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock();
        let at = offset as usize;
        let found = state.files[self.1].seen.get(at..at + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Op::Len(len as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.step()?;
        if state.lies {
            return Ok(());
        }
        let File { synced, unsynced, .. } = &mut state.files[self.1];
        unsynced.drain(..).for_each(|op| op.apply(synced));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Op::Write(offset as usize, data.to_vec()))
    }
}
