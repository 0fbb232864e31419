//! Messages with a handler, from a client's connection to the handler and back.
use super::*;
use crate::limits::CONTROL_TIME_MAX;
use crate::{Deciding, MessageHandler, handled_opcodes};
use answer::NOTIFY_NAMES;
use api::{CredentialFile, Credentials};
use compile::Image;
use config::UpdateWait;
use data_plane::limits::SELF_QUERY_INTERVAL;
use data_plane::settings_of_file;
use handler::{Answerer, FIRST_NOTIFY, Settings};
use image::HashKey;
use packet::{DropReason, Transport};
use query_samples::{TapSettings, TapThread};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use sync::Publisher;
use test_support::wait::{deadline, until_eq};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};
use wire::Rcode;
use worker::{StreamLimits, Streams, WorkerTotals, listen};

const UPDATE: u8 = 5;
const LEN: usize = 60_000;

/// Answers an UPDATE with as many bytes, once it may.
struct Echo {
    turns: Semaphore,
}

impl MessageHandler for Echo {
    fn takes(&self, message: &ReceivedMessage) -> bool {
        message.opcode() == UPDATE
    }

    fn handle(self: Arc<Self>, message: ReceivedMessage) -> Deciding {
        Box::pin(async move {
            self.turns.acquire().await.expect("open").forget();
            assert_ne!(message.bytes[12..], *b"panic");
            assert_eq!(message.transport, Transport::Stream);
            let mut answer = message.bytes;
            answer[2] |= 0x80;
            Decision::Message(answer)
        })
    }
}

/// Handlers without keys: this one.
fn handlers(echo: &Arc<Echo>) -> Handlers {
    let credentials = Credentials::new(CredentialFile::at(None));
    let list: [Arc<dyn MessageHandler>; 1] = [Arc::<Echo>::clone(echo)];
    Handlers::new(Arc::new(credentials), list)
}

/// A stream thread, and a handler of UPDATE.
struct Fixture {
    streams: Streams,
    address: SocketAddr,
    echo: Arc<Echo>,
    answers: sync::CountersView<{ handler::COUNTERS }>,
    _end: oneshot::Sender<()>,
}

impl Fixture {
    fn new(handled_opcodes: u16, turns: usize) -> Self {
        let key = Arc::new(HashKey::new([7; image::HASH_KEY_WORDS]));
        let mut images = Publisher::new(Image::new(key));
        let settings = Settings { handled_opcodes, ..settings_of_file(None).expect("settings") };
        let mut settings = Publisher::new(settings);
        let tap = TapThread::start(TapSettings::default()).expect("a tap").tap(1);
        let (images, settings) = (images.reader().expect("one"), settings.reader().expect("one"));
        let mut app = Answerer::new(images, settings, tap, 1).expect("an app");
        let (answers, echo) = (app.counters(), Arc::new(Echo { turns: Semaphore::new(turns) }));
        // A busy machine may be slower than the usual limit.
        let handlers = handlers(&echo).limited_to(deadline());
        let ((end, ended), (send, receive)) = (oneshot::channel(), std::sync::mpsc::channel());
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let mut messages = ControlMessages::new().expect("a descriptor");
                messages.receive_from(vec![app.control(messages.waker()).expect("a descriptor")]);
                send.send(app).expect("the test waits");
                let running = messages.run(handlers, SELF_QUERY_INTERVAL, || {});
                tokio::select! {
                    ended = running => ended.expect("it runs"),
                    _ = ended => {}
                }
            });
        });
        let app = receive.recv().expect("an app");
        let listener = listen("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let on_failure = Arc::new(|failure| panic!("{failure}"));
        let (limits, is_proxy) = (StreamLimits::default(), Arc::new(|_| false));
        let streams = Streams::start(vec![listener], vec![app], limits, is_proxy, on_failure);
        Self { streams: streams.expect("a thread"), address, echo, answers, _end: end }
    }

    fn connect_from(&self, host: u8) -> TcpStream {
        let stream = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&stream, &SocketAddr::from(([127, 0, 0, host], 0))).expect("an address");
        connect(&stream, &self.address).expect("it listens");
        let stream = TcpStream::from(stream);
        stream.set_read_timeout(Some(deadline())).expect("a timeout");
        stream
    }

    fn dropped(&self) -> u64 {
        let totals = WorkerTotals::sum(self.streams.counters());
        totals.dropped[DropReason::ControlFull as usize]
    }

    /// Replies by code.
    fn replies(&self, rcode: Rcode) -> u64 {
        self.answers.read()[rcode.index()]
    }
}

/// A message of this opcode and length.
fn message(opcode: u8, id: u8, len: usize) -> Vec<u8> {
    let mut message = vec![0; 12];
    (message[1], message[2]) = (id, opcode << 3);
    message.extend((12..len).map(|at| (at % 251) as u8));
    message
}

fn send(stream: &mut TcpStream, message: &[u8]) {
    let len = (message.len() as u16).to_be_bytes();
    stream.write_all(&[&len, message].concat()).expect("it reads");
}

fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).expect("a length");
    let mut reply = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut reply).expect("a reply");
    reply
}

/// The answer of the handler to a message.
fn echoed(mut message: Vec<u8>) -> Vec<u8> {
    message[2] |= 0x80;
    message
}

#[test]
fn update_of_60_kb_reaches_its_handler_and_so_does_the_answer_its_client() {
    let fixture = Fixture::new(1 << UPDATE, 100);
    let mut stream = fixture.connect_from(1);
    for (id, len) in [(1, 12), (2, LEN), (3, 65_535), (4, 100)] {
        let sent = message(UPDATE, id, len);
        send(&mut stream, &sent);
        assert_eq!(receive(&mut stream), echoed(sent), "{len} bytes");
    }
    assert_eq!(fixture.replies(Rcode::NoError), 4);
    let notifies = FIRST_NOTIFY..FIRST_NOTIFY + NOTIFY_NAMES.len();
    assert_eq!(fixture.answers.read()[notifies], [0; NOTIFY_NAMES.len()], "it is not a NOTIFY");
    // STATUS has no handler; and a panic of the handler costs the message that met it.
    send(&mut stream, &message(2, 5, 12));
    assert_eq!(receive(&mut stream)[..4], [0, 5, 0x90, Rcode::NotImp as u8]);
    send(&mut stream, &[&message(UPDATE, 6, 12)[..], b"panic"].concat());
    assert_eq!(receive(&mut stream)[..4], [0, 6, 0xa8, Rcode::ServFail as u8]);
    fixture.streams.stop();
}

#[test]
fn opcode_without_a_handler_is_answered_by_the_data_plane() {
    let fixture = Fixture::new(handled_opcodes(UpdateWait::Off, false), 0);
    let mut stream = fixture.connect_from(1);
    for len in [12, LEN] {
        send(&mut stream, &message(UPDATE, 1, len));
        let reply = receive(&mut stream);
        assert_eq!(reply, [0, 1, 0xa8, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    fixture.streams.stop();
}

#[test]
fn client_that_fills_its_share_takes_nothing_from_another() {
    let fixture = Fixture::new(1 << UPDATE, 0);
    let mut greedy = fixture.connect_from(1);
    // Four have room in the share of a client.
    for id in 0..6 {
        send(&mut greedy, &message(UPDATE, id, LEN));
    }
    until_eq("dropped messages", || fixture.dropped(), 2);
    let mut other = fixture.connect_from(2);
    let sent = message(UPDATE, 9, LEN);
    send(&mut other, &sent);
    fixture.echo.turns.add_permits(5);
    assert_eq!(receive(&mut other), echoed(sent));
    // Answers come in any order (RFC 7766 §6.2.1.1).
    let mut answers: Vec<_> = (0..4).map(|_| receive(&mut greedy)).collect();
    answers.sort_by_key(|answer| answer[1]);
    assert!(answers.into_iter().eq((0..4).map(|id| echoed(message(UPDATE, id, LEN)))));
    // Its share is free again.
    fixture.echo.turns.add_permits(1);
    send(&mut greedy, &message(UPDATE, 7, LEN));
    assert_eq!(receive(&mut greedy), echoed(message(UPDATE, 7, LEN)));
    assert_eq!((fixture.dropped(), fixture.replies(Rcode::NoError)), (2, 6));
    fixture.streams.stop();
}

#[tokio::test(start_paused = true)]
async fn handler_that_takes_too_long_is_stopped_and_the_client_gets_servfail() {
    let echo = Arc::new(Echo { turns: Semaphore::new(0) });
    let (client, transport) = (([192, 0, 2, 1], 5_300).into(), Transport::Stream);
    let (bytes, signature) = (message(UPDATE, 1, 12).into(), None);
    let handlers = handlers(&echo);
    let deciding = handlers.decide(ReceivedMessage { client, transport, bytes, signature });
    let begin = tokio::time::Instant::now();
    let decision = deciding.await;
    assert_eq!((decision, begin.elapsed()), (Decision::Code(Rcode::ServFail), CONTROL_TIME_MAX));
    tokio::task::yield_now().await;
    assert_eq!(Arc::strong_count(&echo), 2, "it waits no more");
}
