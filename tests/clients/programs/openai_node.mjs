// The package `openai`, for node.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import * as h from "./harness.mjs";

const client = new OpenAI({ baseURL: h.V1, apiKey: h.KEY, maxRetries: 0 });
const model = h.MODEL;
const user = (content) => [{ role: "user", content }];
const hello = { model, messages: user("Hello") };
const Report = z.object({
  sky: z.enum(["sun", "rain"]),
  degrees: z.number().int().min(-30).max(50),
  is_windy: z.boolean(),
});
const weather = {
  name: "get_weather",
  description: "Tells the weather of a city.",
  parameters: h.WEATHER_PARAMETERS,
};
const tools = [{ type: "function", function: weather }];

await h.runFeatures({
  async models() {
    const models = [];
    for await (const each of client.models.list()) models.push(each.id);
    assert.deepEqual(models, [model]);
  },

  async chat() {
    const reply = await client.chat.completions.create({ ...hello, max_tokens: 8, n: 2 });
    assert.equal(reply.choices.length, 2);
    assert.equal(reply.usage.completion_tokens, 16);
  },

  async stream() {
    const given = { ...hello, max_tokens: 8, temperature: 0 };
    let streamed = "";
    for await (const chunk of await client.chat.completions.create({ ...given, stream: true }))
      streamed += chunk.choices[0].delta.content ?? "";
    const whole = await client.chat.completions.create(given);
    assert.equal(streamed, whole.choices[0].message.content);
  },

  async usage() {
    const given = { ...hello, max_tokens: 8, stream_options: { include_usage: true } };
    let last;
    for await (last of await client.chat.completions.create({ ...given, stream: true }));
    assert.equal(last.usage.completion_tokens, 8);
  },

  async completions() {
    const given = { model, prompt: "def f(", max_tokens: 6, temperature: 0 };
    const whole = await client.completions.create(given);
    let streamed = "";
    for await (const chunk of await client.completions.create({ ...given, stream: true }))
      streamed += chunk.choices[0].text;
    assert.equal(streamed, whole.choices[0].text);
  },

  async tools_forced() {
    const reply = await client.chat.completions.create({
      ...hello,
      tools,
      tool_choice: { type: "function", function: { name: "get_weather" } },
    });
    const [call] = reply.choices[0].message.tool_calls;
    assert.ok(JSON.parse(call.function.arguments).city in h.FORECAST);
  },

  async tools_streamed() {
    const messages = user(h.QUESTION);
    const stream = client.chat.completions.stream({ model, messages, tools });
    const reply = await stream.finalChatCompletion();
    const calls = reply.choices[0].message.tool_calls;
    const cities = calls.map((call) => JSON.parse(call.function.arguments).city);
    assert.deepEqual(cities, ["Paris", "Oslo"]);
  },

  async tools_loop() {
    const given = { model, messages: user(h.QUESTION) };
    const run = { ...weather, function: ({ city }) => h.FORECAST[city], parse: JSON.parse };
    for (const stream of [false, true]) {
      const tools = [{ type: "function", function: run }];
      const runner = client.chat.completions.runTools({ ...given, tools, stream });
      assert.equal(await runner.finalContent(), h.SAID);
    }
  },

  async structured() {
    const reply = await client.chat.completions.parse({
      ...hello,
      response_format: zodResponseFormat(Report, "report"),
    });
    assert.ok(["sun", "rain"].includes(reply.choices[0].message.parsed.sky));
  },

  async structured_streamed() {
    const format = zodResponseFormat(Report, "report");
    const stream = client.chat.completions.stream({ ...hello, response_format: format });
    const reply = await stream.finalChatCompletion();
    assert.equal(typeof reply.choices[0].message.parsed.is_windy, "boolean");
  },

  async reasoning() {
    const messages = user("Think: two and two?");
    const reply = await client.chat.completions.create({ model, messages });
    assert.equal(reply.choices[0].message.reasoning_content, "Two and two make four.");
    assert.equal(reply.choices[0].message.content, "It is four.");
  },

  async responses() {
    const first = await client.responses.create({ model, input: "Say what came first" });
    assert.equal(first.output_text, "Say what came first");
    const again = await client.responses.retrieve(first.id);
    assert.equal(again.output_text, first.output_text);
    await client.responses.delete(first.id);
    await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
  },

  async responses_streamed() {
    const stream = client.responses.stream({ model, input: "Think: 2 + 2?" });
    const response = await stream.finalResponse();
    assert.deepEqual(response.output.map((item) => item.type), ["reasoning", "message"]);
    assert.equal(response.output_text, "It is four.");
  },

  async responses_parsed() {
    const text = { format: zodTextFormat(Report, "report") };
    const response = await client.responses.parse({ model, input: "Hello", text });
    assert.equal(typeof response.output_parsed.degrees, "number");
  },

  async responses_loop() {
    const given = { model, tools: [{ type: "function", ...weather, strict: true }] };
    const asked = await client.responses.create({ ...given, input: h.QUESTION });
    const results = asked.output.map((call) => ({
      type: "function_call_output",
      call_id: call.call_id,
      output: h.FORECAST[JSON.parse(call.arguments).city],
    }));
    const previous_response_id = asked.id;
    const told = await client.responses.create({ ...given, input: results, previous_response_id });
    assert.equal(told.output_text, h.SAID);
  },

  async embeddings() {
    const given = { model, input: ["one text", "another"] };
    const packed = await client.embeddings.create(given);
    const plain = await client.embeddings.create({ ...given, encoding_format: "float" });
    assert.equal(packed.data[1].embedding.length, plain.data[1].embedding.length);
    const [one, other] = [packed, plain].map((reply) => reply.data[1].embedding[0]);
    assert.ok(Math.abs(one - other) < 1e-3);
  },

  async error_model() {
    const asked = client.chat.completions.create({ ...hello, model: "gpt-9" });
    await assert.rejects(asked, OpenAI.NotFoundError);
  },

  async error_context() {
    const asked = client.chat.completions.create({ model, messages: user(h.TOO_LONG) });
    await assert.rejects(asked, (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.code, "context_length_exceeded");
      return true;
    });
  },

  async error_key() {
    const stranger = new OpenAI({ baseURL: h.V1, apiKey: "wrong", maxRetries: 0 });
    const asked = stranger.chat.completions.create(hello);
    await assert.rejects(asked, OpenAI.AuthenticationError);
  },

  async error_rate() {
    const narrow = new OpenAI({ baseURL: h.V1, apiKey: h.NARROW_KEY });
    const given = { model, messages: user("Count"), stream: true };
    const held = await narrow.chat.completions.create(given);
    const hasty = narrow.models.list({ maxRetries: 0 });
    await assert.rejects(hasty, OpenAI.RateLimitError);
    setTimeout(() => held.controller.abort(), 1000);
    const patient = await narrow.models.list({ maxRetries: 5 });
    assert.equal(patient.data.length, 1);
  },

  async cancel() {
    const given = { model, messages: user("Count") };
    const stream = await client.chat.completions.create({ ...given, stream: true });
    for await (const _ of stream) break;
    const hasty = client.chat.completions.create(given, { timeout: 50 });
    await assert.rejects(hasty, OpenAI.APIConnectionTimeoutError);
    await h.waitUntilIdle();
  },
});
