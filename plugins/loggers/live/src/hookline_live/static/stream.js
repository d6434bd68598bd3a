// What the server sends: frames as they come, and windows of earlier moments.

let key = sessionStorage.getItem("hookline-key");
let asking = null;

// Asks for a key, once however many requests need it.
function askForKey() {
  asking ||= new Promise((resolve) => {
    const dialog = document.getElementById("login"), input = document.getElementById("key");
    input.value = "";
    dialog.addEventListener("close", () => {
      key = input.value;
      sessionStorage.setItem("hookline-key", key);
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

export async function get(path, signal) {
  for (;;) {
    const headers = key ? { Authorization: `Bearer ${key}` } : {};
    const answer = await fetch(path, { headers, signal, cache: "no-store", redirect: "error" });
    if (answer.status !== 401 && !(answer.status === 403 && key)) return answer;
    await askForKey();
  }
}

export async function moment(at, signal) {
  const answer = await get(at === null ? "moment" : `moment?at=${Math.round(at)}`, signal);
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer.json();
}

// Calls `take` with each frame, and `lost` with the number of those that were left out,
// for as long as the connection lasts.
export async function follow(take, lost, signal) {
  const answer = await get("frames", signal);
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the server has ended the stream");
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const lines = event.split("\n");
      const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (lines.includes("event: lost")) lost(Number(data));
      else if (data) take(JSON.parse(data));
    }
  }
}
