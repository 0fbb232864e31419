//! Connections to a server that are passed on, and can be cut: nothing arrives then, as behind a
//! broken wire, and what was sent arrives once it is healed.
use crate::spaces::within;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// What is passed on, for as long as the process lives.
pub struct Forward {
    /// Where it takes connections: on loopback.
    pub address: SocketAddr,
    state: Arc<(Mutex<bool>, Condvar)>,
}

impl Forward {
    /// Passes connections on to a server.
    ///
    /// # Panics
    /// There is no port.
    pub fn to(server: impl Into<SocketAddr>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let state = Arc::<(Mutex<bool>, Condvar)>::default();
        let (of_listener, server) = (Arc::clone(&state), server.into());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&of_listener);
                thread::spawn(move || connect(&client, server, &state));
            }
        });
        Self { address, state }
    }

    /// The same within a network namespace, whose server it is, and whose clients come.
    pub fn within(space: &str, server: impl Into<SocketAddr> + Send) -> Self {
        within(space, || Self::to(server))
    }

    /// Passes nothing on from now on, or all again.
    pub fn cut(&self, is_cut: bool) {
        *self.state.0.lock().unwrap_or_else(PoisonError::into_inner) = is_cut;
        self.state.1.notify_all();
    }
}

/// Returns once nothing is cut.
fn wait_until_connected((is_cut, changed): &(Mutex<bool>, Condvar)) {
    let state = is_cut.lock().unwrap_or_else(PoisonError::into_inner);
    drop(changed.wait_while(state, |is_cut| *is_cut).unwrap_or_else(PoisonError::into_inner));
}

fn connect(client: &TcpStream, server: SocketAddr, state: &(Mutex<bool>, Condvar)) {
    wait_until_connected(state);
    let Ok(server) = TcpStream::connect(server) else { return };
    thread::scope(|scope| {
        scope.spawn(|| pass(client, &server, state));
        pass(&server, client, state);
    });
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, state: &(Mutex<bool>, Condvar)) {
    let mut buffer = [0; 16 << 10];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        wait_until_connected(state);
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    wait_until_connected(state);
    let _ = (from.shutdown(Shutdown::Read), to.shutdown(Shutdown::Write));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::time::Duration;

    #[test]
    fn bytes_that_are_sent_while_it_is_cut_arrive_once_it_is_healed() {
        let server = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let forward = Forward::to(server.local_addr().expect("bound"));
        let mut client = TcpStream::connect(forward.address).expect("a connection");
        let (mut accepted, _) = server.accept().expect("a client");
        client.write_all(b"one").expect("sent");
        let mut buffer = [0; 3];
        accepted.read_exact(&mut buffer).expect("it arrives");
        forward.cut(true);
        client.write_all(b"two").expect("sent");
        accepted.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        let nothing = accepted.read(&mut buffer).expect_err("it is cut");
        assert!(matches!(nothing.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{nothing}");
        accepted.set_read_timeout(Some(crate::wait::deadline())).expect("a timeout");
        forward.cut(false);
        accepted.read_exact(&mut buffer).expect("it arrives");
        assert_eq!(&buffer, b"two");
        drop(client);
        assert_eq!(accepted.read(&mut buffer).expect("the end"), 0);
    }
}
