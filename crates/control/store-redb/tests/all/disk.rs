//! A disk with two files that loses unsynced writes, and may fill up.
use fastrand::Rng;
use redb::StorageBackend;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes that a disk writes atomically.
const SECTOR: usize = 512;

#[derive(Clone, Debug)]
enum Op {
    Write(usize, Vec<u8>),
    Len(usize),
}

impl Op {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(at, data) => {
                let end = at + data.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*at..end].copy_from_slice(data);
            }
            Self::Len(len) => bytes.resize(*len, 0),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct File {
    /// What reads return.
    seen: Vec<u8>,
    /// What survives a crash.
    synced: Vec<u8>,
    unsynced: Vec<Op>,
}

#[derive(Debug, Default)]
struct State {
    files: [File; 2],
    /// Operations until the crash.
    crash_after: Option<u64>,
    /// Writes until the disk is full.
    room: Option<u64>,
    /// Whether syncs do nothing.
    lies: bool,
}

/// Clones share the disk.
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

    /// The disk was only away for a while.
    pub fn is_back(&self) {
        self.lock().crash_after = None;
    }

    pub fn has_crashed(&self) -> bool {
        self.lock().crash_after == Some(0)
    }

    pub fn fill_after(&self, writes: u64) {
        self.lock().room = Some(writes);
    }

    /// Makes syncs do nothing from now on.
    pub fn lie(&self) {
        self.lock().lies = true;
    }

    pub fn has_room(&self) {
        self.lock().room = None;
    }

    /// The disk after a power failure: any unsynced sectors may be there, in any order.
    pub fn reboot(&self, rng: &mut Rng) -> Disk {
        let files = self.lock().files.clone().map(|file| {
            let bytes = file.left(rng);
            File { seen: bytes.clone(), synced: bytes, unsynced: Vec::new() }
        });
        Disk(Arc::new(Mutex::new(State { files, ..State::default() })))
    }
}

impl File {
    fn left(self, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = self.synced;
        let keeps = rng.u64(..4);
        for op in &self.unsynced {
            match op {
                Op::Len(_) if rng.u64(..4) >= keeps => op.apply(&mut bytes),
                Op::Len(_) => {}
                Op::Write(at, data) => {
                    for (n, sector) in data.chunks(SECTOR).enumerate() {
                        if rng.u64(..4) >= keeps {
                            let at = at + n * SECTOR;
                            Op::Write(at, sector.to_vec()).apply(&mut bytes);
                        }
                    }
                }
            }
        }
        bytes
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
