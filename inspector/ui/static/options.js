// Choices of a view that links and reloads must keep: one JSON object in a hidden input of the form, one key a view.
// And inputs of a view that stand for a field of the form. Nothing is asked or drawn here.

const viewOptions = (bench, name, defaults) => {
  let all = null;
  try { all = JSON.parse(bench.field('training').value || '{}'); } catch (error) { /* not ours: as at the beginning */ }
  const given = isPlainObject(all) && isPlainObject(ownValue(all, name)) ? all[name] : {}, out = { ...defaults };
  for (const key of Object.keys(defaults)) if (typeof ownValue(given, key) === typeof defaults[key]) out[key] = given[key];
  return out;
};
const setViewOptions = (bench, name, values) => {
  const field = bench.field('training');
  let all = {};
  try { all = JSON.parse(field.value || '{}'); } catch (error) { all = {}; }
  field.value = JSON.stringify({ ...(isPlainObject(all) ? all : {}), [name]: { ...(isPlainObject(all) && isPlainObject(all[name]) ? all[name] : {}), ...values } });
  bench.remember(true);
};
// Put a value into a field of the form as if it had been typed there.
const setField = (bench, name, value) => {
  const field = bench.field(name);
  if (field.type === 'checkbox') { if (field.checked === value) return; field.checked = value; } else { if (field.value === value) return; field.value = value; }
  bench.changed();
};
const selectOf = (name, entries, value, act) => {
  const select = el('select'); select.dataset.in = name;
  for (const [key, text] of entries) { const option = el('option', '', text); option.value = key; select.append(option); }
  if (entries.length) select.value = entries.some(([key]) => key === value) ? value : entries[0][0];
  select.addEventListener('change', () => act(select.value));
  return select;
};
// A row of buttons of which one is on.
const choiceRow = (label, entries, value, act) => {
  const group = el('div', 'ti-choices'); group.setAttribute('role', 'group'); group.setAttribute('aria-label', t(label));
  for (const [key, text] of entries) { const node = focusable(button('ti-btn', text, () => act(key)), label + ' ' + key); node.setAttribute('aria-pressed', key === value); node.dataset.choice = key; group.append(node); }
  return group;
};
// The fields of the form that only some policies read, or that need documents or media.
const showFewFields = (bench) => {
  const policy = bench.field('policy').value, messages = !/^(tokens_|reject)/.test(policy), hide = (name, on) => { bench.field(name).closest('.ti-field').hidden = !on; };
  hide('whole_turns', messages && policy !== 'drop_middle' || bench.field('whole_turns').checked);
  hide('first_turns', policy === 'keep_first' || Boolean(bench.field('first_turns').value));
  hide('document_order', messages && Boolean(bench.field('documents').value.trim()) || Boolean(bench.field('document_order').value));
  hide('media', VIEW_MODELS.media.there(bench.state) || bench.field('media').value !== 'auto');
  hide('image_tokens', VIEW_MODELS.media.there(bench.state) || Boolean(bench.field('image_tokens').value));
};
