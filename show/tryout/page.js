"use strict";
const $ = id => document.getElementById(id);
const post = async (path, body) => {
	const answer = await fetch(path, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
	if (!answer.ok) throw new Error(await answer.text());
	return answer.json();
};

// The last word that is being typed gives way to one that is chosen.
const take = word => {
	const field = $("typed");
	field.value = field.value.slice(0, field.value.lastIndexOf(" ") + 1) + word + " ";
	field.focus();
	suggest();
};
const show = (id, words) => $(id).replaceChildren(...words.map(word => {
	const key = document.createElement("button");
	key.textContent = word;
	key.addEventListener("click", () => take(word));
	return key;
}));

// One question at a time; of what was typed meanwhile, the newest is asked next.
let asking = false, waiting = false;
const suggest = async () => {
	if (asking) { waiting = true; return; }
	asking = true;
	$("state").textContent = "…";
	try {
		const words = await post("suggest", {text: $("typed").value});
		show("before", words.before || []);
		show("after", words.after || []);
		$("state").textContent = "";
	} catch (error) {
		$("state").textContent = error.message;
	}
	asking = false;
	if (waiting) { waiting = false; suggest(); }
};
$("typed").addEventListener("input", suggest);
$("typed").addEventListener("keydown", event => {
	const first = $("after").firstElementChild;
	if (event.key === "Tab" && !event.shiftKey && first) {
		event.preventDefault();
		take(first.textContent);
	}
});

let prompts = [], seed = 0;
$("prompt").addEventListener("change", () => { $("asked").textContent = prompts[$("prompt").selectedIndex]; });
$("write").addEventListener("click", async () => {
	$("write").disabled = true;
	$("writing").textContent = "Both models write …";
	try {
		const texts = await post("write", {prompt: $("prompt").selectedIndex, seed: ++seed});
		$("untuned").textContent = texts.before;
		$("tuned").textContent = texts.after;
		$("writing").textContent = "";
	} catch (error) {
		$("writing").textContent = error.message;
	}
	$("write").disabled = false;
});

fetch("about").then(answer => answer.json()).then(about => {
	$("small").textContent = about.small;
	$("generator").textContent = about.generator;
	prompts = about.prompts || [];
	$("prompt").replaceChildren(...prompts.map((text, i) => new Option((i + 1) + ": " + text.slice(-60).replace(/\s+/g, " "))));
	$("asked").textContent = prompts[0] || "";
	$("write").disabled = prompts.length === 0;
	$("typed").value = decodeURIComponent(location.hash.slice(1)); // an address can hold what is typed
	suggest();
});
